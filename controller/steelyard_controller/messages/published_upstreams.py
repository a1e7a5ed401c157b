"""The published list of upstreams in Memcached: written when it changes, and before it expires.

I/O around `upstream_list`. As with tables, a write replaces only the value that was read (compare and swap).
A list of a higher term stays.
"""

import time
from collections.abc import Callable, Iterable, Mapping

from steelyard_protocol import derived_keys, upstream_list, wire
from steelyard_protocol.memcached_client import Seen, Unavailable
from steelyard_protocol.memcached_pool import MemcachedPool
from steelyard_protocol.upstream_list import UpstreamList
from steelyard_protocol.wire import Refused

from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.published_tables import MOST_WRITES, TABLE_TTL_S, Held

# Far within its time to live. An nginx that starts also refuses a list issued more than a day ago.
REWRITE_S = 3600.0


class PublishedUpstreams:
    """The list of an installation as this controller last wrote it, under `key`; `clock` is monotonic."""

    def __init__(
        self,
        pipeline: MemcachedPool,
        *,
        keys: Keyring,
        installation: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.key = wire.upstreams_key(installation)
        self._pipeline = pipeline
        self._keys = keys
        self._clock = clock
        self._last: UpstreamList | None = None
        self._value = b""
        self._issued_s = 0.0

    async def read(self, skip: set[str] | None = None) -> Held:
        """Return the list and the announcements from each server; empty if no server answers."""
        try:
            return await self._pipeline.seen([self.key, wire.ANNOUNCED_KEY], skip)
        except Unavailable:
            return {}

    def highest_term(self, lists: Held) -> int:
        """Return the highest term among these lists; 0 if none is accepted."""
        return max((self._term_of(held) for held in lists.values()), default=0)

    async def publish(
        self, names: Iterable[str], lists: Held, *, term: int, certain: Callable[[], bool], skip: set[str]
    ) -> str | None:
        """Replace `lists` by the list of these upstreams, at most MAX_NAMES of them, if they differ.

        Returns why a server that answers does not hold it afterwards, or None. Raises `Forbidden`.
        """
        self._renew(tuple(sorted(names)[: upstream_list.MAX_NAMES]), term)
        for _ in range(MOST_WRITES):
            stale = {server: held for server, held in lists.items() if not self._is_ours(held)}
            if not stale:
                return None
            if self.highest_term(stale) > term:
                return "another controller leads by now, and has written its own list"
            try:
                await self._pipeline.replace(
                    {self.key: self._value}, stale, ttl_s=TABLE_TTL_S, allowed=certain, skip=skip
                )
            except Unavailable:
                return None  # The pool has the fault of each server.
            lists = await self.read(skip)
        return f"another program keeps overwriting it ({', '.join(sorted(stale))})"

    def _renew(self, names: tuple[str, ...], term: int) -> None:
        last, now_s = self._last, self._clock()
        is_young = now_s - self._issued_s < REWRITE_S
        if last is not None and is_young and (last.names, last.term) == (names, term):
            return
        generation = last.generation + 1 if last is not None and last.term == term else 1
        self._last = UpstreamList(
            v=1, term=term, generation=generation, issued_at_ms=time.time_ns() // 1_000_000, names=names
        )
        self._value = self._keys.signed_table(upstream_list.encode(self._last))
        self._issued_s = now_s

    def _is_ours(self, held: Mapping[str, Seen]) -> bool:
        seen = held.get(self.key)
        return seen is not None and seen.value == self._value

    def _term_of(self, held: Mapping[str, Seen]) -> int:
        seen = held.get(self.key)
        if seen is None or seen.value == self._value:
            return 0
        text = self._keys.open_value(seen.value, derived_keys.TABLES)
        listed = text if isinstance(text, Refused) else upstream_list.decode(text)
        return 0 if isinstance(listed, Refused) else listed.term
