"""Every picker of the model by name: the product's Lua, and others to compare with, for the model only."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from steelyard_simulator.engine import stream
from steelyard_simulator.pickers import comparison_pickers as compared
from steelyard_simulator.pickers import lua_pickers, prequal

__all__ = ["NAMES", "OURS", "PEERS", "Picker", "maker"]


class Picker(Protocol):
    """Chooses servers, 0..k-1, for one load balancer."""

    def update(self, weights: Sequence[int]) -> None:
        """Take a new weight table: k whole numbers; 0 is a server that is out of service."""

    def pick(self, now_s: float) -> int:
        """Choose a server for a request; it is in flight there from now on."""

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        """Note that a request sent there at `sent_s` has its answer."""


_PEERS: dict[str, Callable[[int, Random], Picker]] = {
    "wrr": compared.RoundRobin,
    "lr": compared.LeastRequest,
    "random": compared.RandomChoice,
    "leastconn": compared.LeastConn,
    "leasttime": compared.LeastTime,
    "peakewma": compared.PeakEwma,
}

OURS: tuple[str, ...] = lua_pickers.NAMES
"""The product's pickers."""

PREQUAL = "prequal"
"""Whose load balancers ask the same servers."""

PEERS: tuple[str, ...] = (*_PEERS, PREQUAL)
"""The peers of comparison."""

NAMES: tuple[str, ...] = (*OURS, *PEERS)


def maker(
    name: str,
    *,
    servers: int,
    seed: int,
    exchange_s: float = 0.0,
    priced: bool = False,
    told: bool = False,
    groups: Sequence[int] = (),
    subset_size: int = 0,
    balancers: int = 1,
) -> Callable[[int], Picker]:
    """Return a function that makes the picker of the load balancer with that index.

    With `exchange_s` the product's pickers have an `exchange` to be called so often; with `priced` they are
    told what each request costs, too; with `told` servers say in each answer what they have in flight.
    With the servers' `groups` they choose by what is in flight within a group alone; with `subset_size` each
    has a subset of the servers, as one of so many `balancers`.

    Raises ValueError for an unknown name, and SetupError where LuaJIT or the Lua code is missing.
    """
    if name in OURS:
        lua_seed = stream(seed, "lua").getrandbits(53)
        runtime = lua_pickers.LuaRuntime(lua_seed, groups, subset_size, balancers)
        return lambda _index: lua_pickers.LuaPicker(
            name, servers, runtime, exchange_s, priced=priced, told=told
        )
    if name == PREQUAL:
        probed = prequal.ProbedServers(servers)
        return lambda index: prequal.Prequal(stream(seed, f"picker {index}"), probed)
    if name not in _PEERS:
        raise ValueError(f"there is no picker {name!r} in the model; choose one of: {', '.join(NAMES)}")
    return lambda index: _PEERS[name](servers, stream(seed, f"picker {index}"))
