"""The published weight tables in Memcached: read them, check them, replace them.

I/O around `weight_table`. Tables are ordered by (term, generation). A write
replaces just the table that was read (compare and swap); a table that somebody
wrote in between is read and checked first. Its head, which nginx reads instead
where it can, is written after it and is never read here.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from steelyard_protocol import derived_keys, signature, weight_table, wire
from steelyard_protocol.memcached_client import Seen, Unavailable
from steelyard_protocol.memcached_pool import MemcachedPool
from steelyard_protocol.weight_table import WeightTable
from steelyard_protocol.wire import Refused

from steelyard_controller.messages.keyring import Keyring

log = logging.getLogger("steelyard.controller")

# A table outlives its controller by this long, so that a new leader can read the order from it.
TABLE_TTL_S = 86_400

# nginx reads the table itself where the head does not rise. So this only bounds for how long a controller of
# an earlier version, which writes no heads, leaves one that nginx must refuse. A leader that stops between
# its two writes, and wakes when another one leads, leaves one until the next tick.
HEAD_TTL_S = 10

# False tables that are written again and again are logged once a minute for each reason, so that nobody can
# fill the log.
COMPLAIN_EVERY_S = 60.0

# Between a read and the write lies a tick, at a second try a millisecond: another writer that comes in
# between this often writes without a pause.
TRIES = 3

Tables = Mapping[str, Mapping[str, Seen]]
"""What each server holds of the weight tables: server -> key -> value."""


class PublishedTables:
    """The published tables as this controller last read and wrote them.

    With a shared key only signed tables are accepted; `refused` is called for each one that is not.
    """

    def __init__(
        self, pipeline: MemcachedPool, *, keys: Keyring, refused: Callable[[str, Refused], None]
    ) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._refused = refused
        self._checked: dict[tuple[str, str], tuple[bytes, int]] = {}
        self._complained_s: dict[tuple[str, str], float] = {}

    async def read(self, upstreams: Sequence[str], skip: set[str]) -> Tables:
        """Return each server's tables of these upstreams, undecoded; nothing where no server answers."""
        try:
            return await self._pipeline.seen([wire.weights_key(upstream) for upstream in upstreams], skip)
        except Unavailable:
            return {}

    async def highest_term(self, tables: Tables) -> int:
        """Return the highest term among these tables; 0 where none is accepted."""
        highest = 0
        for server, held in tables.items():
            for key, seen in held.items():
                before = self._checked.get((server, key))
                if before is not None and before[0] == seen.value:
                    highest = max(highest, before[1])
                else:
                    table = await self._check(server, key, seen.value)
                    highest = max(highest, 0 if table is None else table.term)
        return highest

    async def latest(self, upstreams: Iterable[str]) -> dict[str, WeightTable]:
        """Return the latest table of each of these upstreams, where there is one."""
        found: dict[str, WeightTable] = {}
        for server, held in (await self.read(sorted(upstreams), set())).items():
            for key, seen in held.items():
                table = await self._check(server, key, seen.value)
                known = None if table is None else found.get(table.upstream)
                if table is not None and (known is None or known.order < table.order):
                    found[table.upstream] = table
        return found

    async def publish(
        self, table: WeightTable, tables: Tables, *, certain: Callable[[], bool], skip: set[str]
    ) -> None:
        """Replace `tables`, or what was written since and is of no higher term, by `table`.

        Raises `Unavailable` where a server that answered does not hold the table afterwards, and
        `Forbidden`, `TableTooLarge`.
        """
        key = wire.weights_key(table.upstream)
        value = self._signed(weight_table.encode(table))
        head = wire.head_key(table.upstream), self._signed(weight_table.encode_head(table)), HEAD_TTL_S
        for _ in range(TRIES):
            changed = await self._pipeline.replace(
                key, value, tables, ttl_s=TABLE_TTL_S, allowed=certain, skip=skip, then=head
            )
            self._checked.update({(server, key): (value, table.term) for server in {*tables} - changed})
            if not changed:
                return
            found = await self.read([table.upstream], skip)
            tables = {server: held for server, held in found.items() if server in changed}
            if await self.highest_term(tables) > table.term:
                raise Unavailable("another controller leads by now, and has written its own table")
        servers = ", ".join(sorted(changed))
        raise Unavailable(f"somebody else writes the table again and again ({servers})")

    def forget(self, upstream: str) -> None:
        """Drop an upstream's tables from the cache of checked ones."""
        key = wire.weights_key(upstream)
        self._checked = {at: seen for at, seen in self._checked.items() if at[1] != key}
        self._complained_s = {at: s for at, s in self._complained_s.items() if at[0] != upstream}

    async def _check(self, server: str, key: str, value: bytes) -> WeightTable | None:
        """Return a published table, decoded; None, logged and counted, where it is refused."""
        table = await asyncio.to_thread(self._decoded, value)
        upstream = key.removeprefix(wire.weights_key(""))
        if not isinstance(table, Refused) and table.upstream != upstream:
            table = Refused("name", f"the key holds the table of {table.upstream}")
        again = self._checked.get((server, key), (None, 0))[0] == value
        if not isinstance(table, Refused):
            self._checked[server, key] = (value, table.term)
            return table
        self._checked[server, key] = (value, 0)
        if not again:
            self._refused(upstream, table)
            self._complain(upstream, table)
        return None

    def _complain(self, upstream: str, refused: Refused) -> None:
        at, now_s = (upstream, refused.reason), time.monotonic()
        if now_s - self._complained_s.get(at, -math.inf) < COMPLAIN_EVERY_S:
            return
        self._complained_s[at] = now_s
        log.warning(
            "%s: the published weight table is %s; its order is not taken up", upstream, refused,
            extra={"event": "refused", "upstream": upstream},
        )  # fmt: skip

    def _signed(self, text: bytes) -> bytes:
        key = self._keys.of_tables
        return text if key is None else signature.sign(key, text)

    def _decoded(self, value: bytes) -> WeightTable | Refused:
        text = self._keys.open_value(value, derived_keys.TABLES)
        return text if isinstance(text, Refused) else weight_table.decode(text)
