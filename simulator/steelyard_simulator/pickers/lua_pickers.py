"""The product's own pickers, as they are: openresty/ on LuaJIT, inside this process.

A pick with its answer costs 1.2 to 1.7 us, of which the two crossings into Lua are most.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from steelyard_loadtest.machine import picker_list
from steelyard_loadtest.machine.errors import SetupError

BRIDGE = Path(__file__).with_name("balancers.lua")

NAMES = picker_list.keyless()
"""Those that need no library beside them, nor a key: the model's requests have none."""


class LuaPicker:
    """One load balancer's picker and peer stats."""

    __slots__ = ("_of", "_update", "answered", "exchange", "pick")

    def __init__(
        self, name: str, servers: int, runtime: "LuaRuntime", exchange_s: float = 0.0, *,
        priced: bool = False, told: bool = False,
    ) -> None:  # fmt: skip
        # The Lua functions themselves, not methods around them: a call less for every request.
        self.pick: Callable[..., int]
        self.answered: Callable[[int, float, float, bool], None]
        self.exchange: Callable[[float], None]
        self.pick, self.answered, self._update, self.exchange = runtime.balancer(
            name, servers, exchange_s, priced, told
        )
        self._of = runtime

    def update(self, weights: Sequence[int]) -> None:
        self._update(self._of.peers(weights))


class LuaRuntime:
    """One LuaJIT for all load balancers of a run; its random numbers follow from the seed, below 2^53."""

    def __init__(self, seed: int, groups: Sequence[int], subset_size: int, balancers: int) -> None:
        try:
            # It has no types, so nothing is lost by importing it by name.
            luajit = import_module("lupa.luajit21")
        except ImportError as error:
            raise SetupError("the simulator needs LuaJIT to run the Lua pickers: pip install lupa") from error
        lua = luajit.LuaRuntime(unpack_returned_tuples=True)
        folders = (picker_list.OPENRESTY / "steelyard", picker_list.OPENRESTY / "lua-resty-vnswrr")
        lua.globals().package.path = ";".join(f"{folder}/lib/?.lua" for folder in folders)
        bridge = lua.execute(BRIDGE.read_text(encoding="utf-8"))
        bridge.begin(seed, subset_size, balancers)
        self.balancer: Callable[[str, int, float, bool, bool], tuple[Any, Any, Any, Any]] = bridge.balancer
        self._peers_of, self._list = bridge.peers_of, lua.table_from
        self._groups = self._list(groups) if groups else None
        self._weights: Sequence[int] = ()
        self._peers: object = None

    def peers(self, weights: Sequence[int]) -> object:
        """Return the Lua table of peers; the balancers that take the same table share it."""
        if self._peers is None or weights is not self._weights:
            self._weights, self._peers = weights, self._peers_of(self._list(weights), self._groups)
        return self._peers
