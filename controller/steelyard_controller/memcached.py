"""Memcached, as the controller uses it: one server or several, read many keys, write one.

I/O only. Failure is a value: the cycle keeps the last good state and goes on.

Agents put a sample on one server of the pool, in the order of `rendezvous`;
nginx puts its report on the first server that answers, and reads its table
there. So a key is asked at its servers in that order until one has it, which
finds it wherever its writer had to put it; and a table is written to all.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence

from pymemcache.client.base import PooledClient
from pymemcache.exceptions import MemcacheError
from steelyard_agent import flag_values, rendezvous

# Memcached answers within a millisecond; a tick must not wait for one that does not.
TIMEOUT_S = 0.25


class Unavailable(Exception):
    """No server did it; the message says what happened."""


class Memcached:
    """Connections to each server of a pool; `servers` is host:port, with commas between several."""

    def __init__(self, servers: str) -> None:
        self._clients = {
            flag_values.shown(address): PooledClient(
                address, connect_timeout=TIMEOUT_S, timeout=TIMEOUT_S, no_delay=True, max_pool_size=4
            )
            for address in flag_values.servers(servers)
        }
        self._orders: dict[str, list[str]] = {}
        self._faults: dict[str, str | None] = dict.fromkeys(self._clients)

    @property
    def faults(self) -> Mapping[str, str | None]:
        """Return by server what was wrong with it when it was last asked; None: nothing."""
        return self._faults

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values of the keys that are there; raise `Unavailable` when no server answers."""
        found: dict[str, bytes] = {}
        left = list(dict.fromkeys(keys))
        away: set[str] = set()
        for choice in range(len(self._clients)):
            asked: defaultdict[str, list[str]] = defaultdict(list)
            for key in left:
                asked[self._order(key)[choice]].append(key)
            names = [name for name in asked if name not in away]
            answers = await asyncio.gather(
                *(asyncio.to_thread(self._get_many, name, asked[name]) for name in names)
            )
            for name, answer in zip(names, answers, strict=True):
                if answer is None:
                    away.add(name)
                else:
                    found.update(answer)
            left = [key for key in left if key not in found]
        if len(away) == len(self._clients):
            raise Unavailable(self._said())
        return found

    async def set(self, key: str, value: bytes, *, ttl_s: int) -> None:
        """Store a value on every server for `ttl_s` seconds; raise `Unavailable` when none takes it."""
        taken = await asyncio.gather(
            *(asyncio.to_thread(self._set, name, key, value, ttl_s) for name in self._clients)
        )
        if not any(taken):
            raise Unavailable(self._said())

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()

    def _order(self, key: str) -> list[str]:
        if key not in self._orders:
            self._orders[key] = rendezvous.order(list(self._clients), key)
        return self._orders[key]

    def _get_many(self, name: str, keys: Sequence[str]) -> dict[str, bytes] | None:
        try:
            found = dict(self._clients[name].get_many(list(keys)))
        except (MemcacheError, OSError) as error:
            self._faults[name] = str(error) or type(error).__name__
            return None
        self._faults[name] = None
        return found

    def _set(self, name: str, key: str, value: bytes, ttl_s: int) -> bool:
        try:
            stored = bool(self._clients[name].set(key, value, expire=ttl_s, noreply=False))
        except (MemcacheError, OSError) as error:
            self._faults[name] = str(error) or type(error).__name__
            return False
        self._faults[name] = None if stored else "it did not store the value"
        return stored

    def _said(self) -> str:
        return "; ".join(f"{name}: {fault}" for name, fault in self._faults.items() if fault)
