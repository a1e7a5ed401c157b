"""Every picker of the model by name: the product's Lua, and others to compare with, for the model only."""

from collections.abc import Callable
from random import Random

from steelyard_loadtest.simulate.draws import stream
from steelyard_loadtest.simulate.pickers import lua
from steelyard_loadtest.simulate.pickers.least_request import LeastRequest
from steelyard_loadtest.simulate.pickers.maglev import Maglev
from steelyard_loadtest.simulate.pickers.peak_ewma import PeakEwma
from steelyard_loadtest.simulate.pickers.picker import Picker
from steelyard_loadtest.simulate.pickers.random_choice import RandomChoice
from steelyard_loadtest.simulate.pickers.ring_hash import RingHash
from steelyard_loadtest.simulate.pickers.round_robin import RoundRobin

__all__ = ["NAMES", "OURS", "PEERS", "Picker", "maker"]

_PEERS: dict[str, Callable[[Random], Picker]] = {
    "wrr": lambda _random: RoundRobin(),
    "lr": LeastRequest,
    "random": RandomChoice,
    "ringhash": lambda _random: RingHash(),
    "maglev": lambda _random: Maglev(),
    "peakewma": PeakEwma,
}

OURS: tuple[str, ...] = lua.NAMES
"""The product's pickers."""

PEERS: tuple[str, ...] = tuple(_PEERS)
"""The peers of comparison."""

NAMES: tuple[str, ...] = (*OURS, *PEERS)


def maker(name: str, *, servers: int, seed: int) -> Callable[[int], Picker]:
    """Return a function that makes the picker of the load balancer with that index.

    Raises ValueError for an unknown name, and SetupError where LuaJIT or the Lua code is missing.
    """
    if name in OURS:
        runtime = lua.LuaRuntime(stream(seed, "lua").getrandbits(53))
        return lambda _index: lua.LuaPicker(name, servers, runtime)
    if name not in _PEERS:
        raise ValueError(f"there is no picker {name!r} in the model; choose one of: {', '.join(NAMES)}")
    return lambda index: _PEERS[name](stream(seed, f"picker {index}"))
