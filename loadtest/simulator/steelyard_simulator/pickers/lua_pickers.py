"""The product's own pickers, unchanged: openresty/ on LuaJIT, inside this process.

A pick with its answer costs 1.2 to 1.7 us, mostly for the two crossings into Lua.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from steelyard_loadtest.machine import picker_list
from steelyard_loadtest.machine.errors import SetupError
from steelyard_protocol.weight_table import MOST_ZONES

from steelyard_simulator.model import Case

BRIDGE = Path(__file__).with_name("balancers.lua")

NAMES = picker_list.keyless()
"""Pickers that need no other library and no key, because the model's requests have none."""


class LuaPicker:
    """One load balancer's picker and peer stats."""

    __slots__ = ("_of", "_update", "answered", "exchange", "pick")

    def __init__(self, case: Case, runtime: "LuaRuntime") -> None:
        # The Lua functions themselves, not methods around them: one call less for every request.
        self.pick: Callable[..., int]
        self.answered: Callable[[int, float, float, bool], None]
        self.exchange: Callable[[float], None]
        self.pick, self.answered, self._update, self.exchange = runtime.balancer(
            case.balancing.picker,
            len(case.servers),
            case.exchanges_s,
            case.balancing.priced,
            case.in_flight_in_answers,
        )
        self._of = runtime

    def update(self, weights: Sequence[int]) -> None:
        self._update(self._of.peers(weights))


def _groups(case: Case) -> list[int]:
    """Return each server's group as in nginx: by zone, if zones count, and by pin."""
    zoned = case.balancing.zoned == "steelyard"
    return [
        server.zone * zoned if server.pinned is None else MOST_ZONES + index
        for index, server in enumerate(case.servers)
    ]


class LuaRuntime:
    """One LuaJIT for all load balancers of a run; its random numbers follow from the seed, below 2^53."""

    def __init__(self, case: Case, seed: int) -> None:
        try:
            # lupa has no types, so importing it by name loses nothing.
            luajit = import_module("lupa.luajit21")
        except ImportError as error:
            raise SetupError("the simulator needs LuaJIT to run the Lua pickers: pip install lupa") from error
        lua = luajit.LuaRuntime(unpack_returned_tuples=True)
        folders = (picker_list.OPENRESTY / "steelyard", picker_list.OPENRESTY / "lua-resty-vnswrr")
        lua.globals().package.path = ";".join(f"{folder}/lib/?.lua" for folder in folders)
        bridge = lua.execute(BRIDGE.read_text(encoding="utf-8"))
        bridge.begin(seed, case.subset_size, case.balancers)
        self.balancer: Callable[[str, int, float, bool, bool], tuple[Any, Any, Any, Any]] = bridge.balancer
        self._peers_of, self._list = bridge.peers_of, lua.table_from
        self._groups = self._list(_groups(case))
        self._weights: Sequence[int] = ()
        self._peers: object = None

    def peers(self, weights: Sequence[int]) -> object:
        """Return the Lua table of peers; balancers that take the same table share it."""
        if self._peers is None or weights is not self._weights:
            self._weights, self._peers = weights, self._peers_of(self._list(weights), self._groups)
        return self._peers
