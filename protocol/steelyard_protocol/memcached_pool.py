"""A pool of Memcached servers: read many keys from them, replace many on all of them. I/O only.

Failure is a value: the cycle keeps the last good state and goes on. `skip` is
the memory of one tick: a server that fails joins the set and is not asked again
with the same set. So one that hangs costs a tick `memcached_client.TIMEOUT_S`
once, and not once an upstream.

Agents put a sample on one server of the pool, in the order of `rendezvous`.
nginx puts its report on the first server that answers, and reads its table
there. So the servers are asked for a key in that order until one has it: every place
of its writer is covered. A table is written to all.

A table only ever replaces the one that was read before it (Memcached's "check
and set"). A controller may stop between its last look at the lease and its
write, and wake when another one leads: it then replaces nothing.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from steelyard_protocol import rendezvous, setting_values
from steelyard_protocol.memcached_client import TIMEOUT_S, MemcachedClient, Seen, Unavailable

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Forbidden(Exception):
    """The writer may not write any more."""


class NoServer(Unavailable):
    """No server of the pool answers; the pool's `faults` have the reason of each."""


class MemcachedPool:
    """Connections to each server of a pool; `servers` is host:port, with commas between several.

    `faults` has by server the error of its last call, or None. `took` is called, in a thread, with the
    server's name and the seconds of each call.
    """

    def __init__(
        self,
        servers: str,
        *,
        timeout_s: float = TIMEOUT_S,
        took: Callable[[str, float], None] = lambda *_: None,
    ) -> None:
        self._took = took
        clients = [
            MemcachedClient(address, timeout_s=timeout_s) for address in setting_values.servers(servers)
        ]
        self._clients = {client.name: client for client in clients}
        self.faults: dict[str, str | None] = dict.fromkeys(self._clients)
        self._orders: dict[str, list[str]] = {}

    async def get_many(self, keys: Sequence[str], skip: set[str] | None = None) -> dict[str, bytes]:
        """Return the values of the existing keys; raise `NoServer` if no server answers."""
        return (await self.read((), keys, skip))[1]

    async def read(
        self, watched: Sequence[str], keys: Sequence[str], skip: set[str] | None = None
    ) -> tuple[dict[str, dict[str, Seen]], dict[str, bytes]]:
        """Return `seen` of the watched keys and `get_many` of the others, read together."""
        skip = set() if skip is None else skip
        orders = self._ordered(keys)
        held: dict[str, dict[str, Seen]] = {}
        values: dict[str, bytes] = {}
        left, seen_keys = keys, list(dict.fromkeys(watched))

        def ask(name: str, some: Sequence[str]) -> tuple[dict[str, Seen], dict[str, bytes]]:
            return self._clients[name].seen(seen_keys), self._clients[name].get_many(some)

        for choice in range(len(self._clients)):
            if choice:
                left, seen_keys = [key for key in left if key not in values], []
            asked = self._by_server(left, orders, choice)
            if seen_keys:
                asked = {name: asked.get(name, ()) for name in self._clients}
            for name, (seen, answer) in (await self._each(asked, ask, skip)).items():
                held.setdefault(name, seen)
                values = {**values, **answer} if values else answer
        self._raise_if_none_answers(skip)
        return held, values

    async def seen(self, keys: Sequence[str], skip: set[str] | None = None) -> dict[str, dict[str, Seen]]:
        """Return by server its values of the keys; raise `NoServer` if no server answers."""
        return (await self.read(keys, (), skip))[0]

    async def replace(
        self,
        values: Mapping[str, bytes],
        seen: Mapping[str, Mapping[str, Seen]],
        *,
        ttl_s: int,
        allowed: Callable[[], bool] = lambda: True,
        skip: set[str] | None = None,
        then: Mapping[str, Mapping[str, bytes]] | None = None,
        then_ttl_s: int = 0,
    ) -> dict[str, dict[str, bool | str]]:
        """Replace the `seen` values by these on every server that was seen, for `ttl_s` seconds.

        If one was written, the values of `then` under its key are written as well, for `then_ttl_s` seconds,
        in place of any others.

        Returns by server and key whether it was written: False if another writer has replaced the seen value,
        a text if the server refuses it. Raises `NoServer` if no server answers. `allowed` is asked right
        before each part is written to a server; raises `Forbidden` if it says no.
        """
        skip = set() if skip is None else skip
        more = {} if then is None else then

        def check() -> None:
            if not allowed():
                raise Forbidden

        def put(name: str, before: Mapping[str, Seen]) -> dict[str, bool | str]:
            client = self._clients[name]
            put = client.replace_many(values, before, ttl_s=ttl_s, check=check)
            heads = {at: head for key in put if put[key] is True for at, head in more.get(key, {}).items()}
            # A reader goes by the table if its head is absent.
            refused_heads[name] = client.put_many(heads, ttl_s=then_ttl_s)
            return put

        refused_heads: dict[str, dict[str, str]] = {}
        answered = await self._each(seen, put, skip)
        if not answered:
            raise self._unavailable()
        for name, taken in answered.items():
            whys = [*taken.values(), *refused_heads[name].values()]
            self.faults[name] = next((why for why in whys if isinstance(why, str)), None)
        return answered

    async def keep(
        self,
        items: Mapping[str, bytes],
        *,
        ttl_s: int,
        afresh: bool,
        allowed: Callable[[], bool] = lambda: True,
        skip: set[str] | None = None,
    ) -> None:
        """Make every server hold these values for `ttl_s` seconds, without sending again those it has.

        `afresh`: send all of them. Raises `NoServer` if no server answers, and `Forbidden` if `allowed`,
        which is asked right before each server, says no.
        """
        skip = set() if skip is None else skip

        def keep(name: str, _: None) -> bool:
            if not allowed():
                raise Forbidden
            for key, value in items.items():
                if afresh or not self._clients[name].touch(key, ttl_s=ttl_s):
                    self._clients[name].put(key, value, ttl_s=ttl_s)
            return True

        await self._each(dict.fromkeys(self._clients), keep, skip)
        self._raise_if_none_answers(skip)

    async def expire(
        self, keys: Mapping[str, Iterable[str]], *, ttl_s: int, skip: set[str] | None = None
    ) -> None:
        """Extend the life of each server's existing keys to `ttl_s` seconds from now."""

        def expire(name: str, some: Iterable[str]) -> bool:
            for key in some:
                self._clients[name].touch(key, ttl_s=ttl_s)
            return True

        await self._each(keys, expire, set() if skip is None else skip)

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()

    def _ordered(self, keys: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the servers of each key, in the order in which they are asked; empty for a single server."""
        if len(self._clients) == 1 or not keys:
            return {}
        # Kept for the last keys, because the next tick asks for the same: 10,000 orders of two servers take
        # 50 ms. Keys that are no longer asked for are dropped.
        names, known = list(self._clients), self._orders
        self._orders = {key: known.get(key) or rendezvous.order(names, key) for key in keys}
        return self._orders

    def _by_server(
        self, keys: Sequence[str], orders: Mapping[str, Sequence[str]], choice: int
    ) -> dict[str, Sequence[str]]:
        """Return the keys by the server that is their first, second, ... `choice`, from 0."""
        if not orders:
            return dict.fromkeys(self._clients, keys) if keys else {}
        asked: dict[str, list[str]] = {}
        for key in keys:
            asked.setdefault(orders[key][choice], []).append(key)
        return {**asked}

    async def _each(
        self, asked: Mapping[str, Asked], ask: Callable[[str, Asked], Answer], skip: set[str]
    ) -> dict[str, Answer]:
        """Return the answers by server; a server without an answer joins `skip`."""
        names = [name for name in asked if name not in skip]
        answering = [asyncio.to_thread(self._answer, name, asked[name], ask) for name in names]
        # A task for the only server that most pools have takes as long as its answer.
        answers = [await answering[0]] if len(names) == 1 else await asyncio.gather(*answering)
        answered = {}
        for name, answer in zip(names, answers, strict=True):
            if answer is None:
                skip.add(name)
            else:
                answered[name] = answer
        return answered

    def _answer(self, name: str, asked: Asked, ask: Callable[[str, Asked], Answer]) -> Answer | None:
        began_s = time.monotonic()
        try:
            answer = ask(name, asked)
        except Unavailable as error:
            self.faults[name] = str(error)
            return None
        finally:
            self._took(name, time.monotonic() - began_s)
        self.faults[name] = None
        return answer

    def _raise_if_none_answers(self, skip: set[str]) -> None:
        if skip >= set(self._clients):
            raise self._unavailable()

    def _unavailable(self) -> NoServer:
        return NoServer("; ".join(f"{name}: {fault}" for name, fault in self.faults.items() if fault))
