"""Memcached, as the controller uses it: one server or several, read many keys, write one.

I/O only. Failure is a value: the cycle keeps the last good state and goes on.
`skip` is the memory of one tick: a server that fails is put into it, and not
asked again by whoever passes the same set, so that one that hangs costs a tick
`TIMEOUT_S` once and not once an upstream.

Agents put a sample on one server of the pool, in the order of `rendezvous`;
nginx puts its report on the first server that answers, and reads its table
there. So a key is asked at its servers in that order until one has it, which
finds it wherever its writer had to put it; and a table is written to all.

A table is only ever put in the place of what was read before (Memcached's
"check and set"): a controller that is stopped between its last look at the
lease and its write, and wakes when another one leads, replaces nothing.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pymemcache.client.base import PooledClient
from pymemcache.exceptions import MemcacheError
from steelyard_agent import flag_values, rendezvous

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

# Memcached answers within a millisecond; a tick must not wait for one that does not.
TIMEOUT_S = 0.25


class Unavailable(Exception):
    """No server did it; the message says what happened."""


class Forbidden(Exception):
    """The writer may not write any more."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A value, and the server's mark of it, which every write changes."""

    value: bytes
    mark: bytes


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

    async def get_many(self, keys: Sequence[str], skip: set[str] | None = None) -> dict[str, bytes]:
        """Return the values of the keys that are there; raise `Unavailable` when no server answers."""
        skip = set() if skip is None else skip
        found: dict[str, bytes] = {}
        left = list(dict.fromkeys(keys))
        for choice in range(len(self._clients)):
            asked: defaultdict[str, list[str]] = defaultdict(list)
            for key in left:
                asked[self._order(key)[choice]].append(key)
            for answer in (await self._each(asked, self._get_many, skip)).values():
                found.update(answer)
            left = [key for key in left if key not in found]
        self._refuse_silence(skip)
        return found

    async def seen(self, keys: Sequence[str], skip: set[str] | None = None) -> dict[str, dict[str, Seen]]:
        """Return by server what it holds of the keys; raise `Unavailable` when no server answers."""
        skip = set() if skip is None else skip
        found = await self._each(
            {name: list(dict.fromkeys(keys)) for name in self._clients}, self._seen, skip
        )
        self._refuse_silence(skip)
        return found

    async def replace(
        self,
        key: str,
        value: bytes,
        seen: Mapping[str, Mapping[str, Seen]],
        *,
        ttl_s: int,
        allowed: Callable[[], bool] = lambda: True,
        skip: set[str] | None = None,
    ) -> frozenset[str]:
        """Put a value in the place of what was `seen`, on every server that was, for `ttl_s` seconds.

        Returns the servers that hold something else by now, and keep it; raises `Unavailable` when none
        answers. `allowed` is asked right before each server is written to; raises `Forbidden` when it
        says no.
        """
        skip = set() if skip is None else skip
        asked = {name: held.get(key) for name, held in seen.items()}

        def put(name: str, before: Seen | None) -> bool:
            if not allowed():
                raise Forbidden
            return self._put(name, key, value, before, ttl_s)

        taken = await self._each(asked, put, skip)
        if not taken:
            raise Unavailable(self._said())
        return frozenset(name for name, is_taken in taken.items() if not is_taken)

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()

    def _order(self, key: str) -> list[str]:
        if key not in self._orders:
            self._orders[key] = rendezvous.order(list(self._clients), key)
        return self._orders[key]

    async def _each(
        self, asked: Mapping[str, Asked], ask: Callable[[str, Asked], Answer], skip: set[str]
    ) -> dict[str, Answer]:
        """Return the answers of the servers that gave one; those that gave none are in `skip` then."""
        names = [name for name in asked if name not in skip]
        answers = await asyncio.gather(
            *(asyncio.to_thread(self._answer, name, asked[name], ask) for name in names)
        )
        found = {}
        for name, answer in zip(names, answers, strict=True):
            if answer is None:
                skip.add(name)
            else:
                found[name] = answer
        return found

    def _answer(self, name: str, asked: Asked, ask: Callable[[str, Asked], Answer]) -> Answer | None:
        try:
            answer = ask(name, asked)
        # The last two: the client's own words for an answer that is none of Memcached's.
        except (MemcacheError, OSError, ValueError, LookupError) as error:
            # What else comes on that connection answers no question of ours.
            self._clients[name].close()
            self._faults[name] = str(error) or type(error).__name__
            return None
        self._faults[name] = None
        return answer

    def _get_many(self, name: str, keys: Sequence[str]) -> dict[str, bytes]:
        return dict(self._clients[name].get_many(list(keys)))

    def _seen(self, name: str, keys: Sequence[str]) -> dict[str, Seen]:
        found = self._clients[name].gets_many(list(keys))
        return {key: Seen(value, mark) for key, (value, mark) in found.items()}

    def _put(self, name: str, key: str, value: bytes, before: Seen | None, ttl_s: int) -> bool:
        client = self._clients[name]
        if before is None:
            return bool(client.add(key, value, expire=ttl_s, noreply=False))
        return bool(client.cas(key, value, before.mark, expire=ttl_s, noreply=False))

    def _refuse_silence(self, skip: set[str]) -> None:
        if skip >= set(self._clients):
            raise Unavailable(self._said())

    def _said(self) -> str:
        return "; ".join(f"{name}: {fault}" for name, fault in self._faults.items() if fault)
