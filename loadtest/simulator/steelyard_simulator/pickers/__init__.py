"""Every picker of the model by name: the product's Lua, and comparison pickers for the model only."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from steelyard_simulator.engine import stream
from steelyard_simulator.model import Case
from steelyard_simulator.pickers import angie, linkerd, lua_pickers, prequal, traefik
from steelyard_simulator.pickers import comparison_pickers as compared

__all__ = ["NAMES", "OURS", "PROBING", "Picker", "maker"]


class Picker(Protocol):
    """Chooses servers, 0..k-1, for one load balancer."""

    def update(self, weights: Sequence[int]) -> None:
        """Take a new weight table: k whole numbers; 0 is a server out of service."""

    def pick(self, now_s: float) -> int:
        """Choose a server for a request; the request is in flight there from now on."""

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        """Record the answer to a request sent there at `sent_s`."""


_PEERS: dict[str, Callable[[int, Random], Picker]] = {
    "wrr": compared.RoundRobin,
    "lr": compared.LeastRequest,
    "random": compared.RandomChoice,
    "leastconn": compared.LeastConn,
    "leasttime": compared.LeastTime,
    "edf": compared.EarliestDeadline,
    "peakewma": compared.PeakEwma,
    "angie-leasttime": angie.AngieLeastTime,
    "angie-feedback": angie.AngieFeedback,
    "traefik-leasttime": traefik.TraefikLeastTime,
    "linkerd-peakewma": linkerd.LinkerdPeakEwma,
}

OURS: tuple[str, ...] = lua_pickers.NAMES
"""The product's pickers."""

PROBING = {"prequal": prequal.Prequal, "linear": prequal.Linear, "c3": prequal.C3, "yarp": prequal.Yarp}
"""Pickers whose load balancers probe the same servers."""

NAMES: tuple[str, ...] = (*OURS, *_PEERS, *PROBING)


def maker(case: Case, seed: int) -> Callable[[int], Picker]:
    """Return a function that makes the picker of the load balancer with a given index.

    Raises ValueError for an unknown name, and SetupError if LuaJIT or the Lua code is missing.
    """
    name, servers = case.balancing.picker, len(case.servers)
    if name in OURS:
        runtime = lua_pickers.LuaRuntime(case, stream(seed, "lua").getrandbits(53))
        return lambda _index: lua_pickers.LuaPicker(case, runtime)
    if name in PROBING:
        probed = prequal.ProbedServers(servers)
        return lambda index: PROBING[name](stream(seed, f"picker {index}"), probed)
    if name not in _PEERS:
        raise ValueError(f"there is no picker {name!r} in the model; choose one of: {', '.join(NAMES)}")
    return lambda index: _PEERS[name](servers, stream(seed, f"picker {index}"))
