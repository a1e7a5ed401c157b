"""The weight tables that Memcached holds: looked at, judged, replaced.

I/O around `weight_table`. Tables are ordered by (term, generation). A table is
put in the place of just the one that was looked at; what came after the look
is looked at first.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from steelyard_agent import signature, wire
from steelyard_agent.wire import Refused

from steelyard_controller.pipeline import memcached, weight_table
from steelyard_controller.pipeline.memcached import Memcached, Seen
from steelyard_controller.pipeline.weight_table import WeightTable

log = logging.getLogger("steelyard.controller")

# A table outlives its controller by this long, so that a new leader can read the order from it.
TABLE_TTL_S = 86_400

# Who writes false tables without a pause is said once a minute for each reason: the log is not a stranger's
# to fill.
COMPLAIN_EVERY_S = 60.0

# Between a look and the write lies a tick, or at a second try a millisecond: who gets in between
# so often writes without a pause.
TRIES = 3

Tables = Mapping[str, Mapping[str, Seen]]
"""What each server holds of the weight tables: server -> key -> value."""


class Published:
    """What was published, as this controller found and left it.

    With a `key` only signed tables are believed; `refused` is told of each that is not.
    """

    def __init__(
        self, pipeline: Memcached, *, key: bytes | None, refused: Callable[[str, Refused], None]
    ) -> None:
        self._pipeline = pipeline
        self._key = key
        self._refused = refused
        self._judged: dict[tuple[str, str], tuple[bytes, int]] = {}
        self._complained_s: dict[tuple[str, str], float] = {}

    async def look(self, upstreams: Sequence[str], skip: set[str]) -> Tables:
        """Return the tables of these upstreams as they stand there; nothing where no server answers."""
        try:
            return await self._pipeline.seen([wire.weights_key(upstream) for upstream in upstreams], skip)
        except memcached.Unavailable:
            return {}

    async def highest_term(self, tables: Tables) -> int:
        """Return the highest term among these tables; 0 where none can be believed."""
        highest = 0
        for server, held in tables.items():
            for key, seen in held.items():
                before = self._judged.get((server, key))
                if before is not None and before[0] == seen.value:
                    highest = max(highest, before[1])
                else:
                    table = await self._judge(server, key, seen.value)
                    highest = max(highest, 0 if table is None else table.term)
        return highest

    async def latest(self, upstreams: Iterable[str]) -> dict[str, WeightTable]:
        """Return the latest table of each of these upstreams, where there is one."""
        found: dict[str, WeightTable] = {}
        for server, held in (await self.look(sorted(upstreams), set())).items():
            for key, seen in held.items():
                table = await self._judge(server, key, seen.value)
                known = None if table is None else found.get(table.upstream)
                if table is not None and (known is None or known.order < table.order):
                    found[table.upstream] = table
        return found

    async def publish(
        self, table: WeightTable, tables: Tables, *, certain: Callable[[], bool], skip: set[str]
    ) -> None:
        """Put a table in the place of what was looked at, or of what came after it and is of no higher term.

        Raises `memcached.Unavailable` where a server that answered does not hold it then, and
        `memcached.Forbidden`, `TableTooLarge`.
        """
        key = wire.weights_key(table.upstream)
        value = await asyncio.to_thread(self._value, table)
        for _ in range(TRIES):
            changed = await self._pipeline.replace(
                key, value, tables, ttl_s=TABLE_TTL_S, allowed=certain, skip=skip
            )
            self._judged.update({(server, key): (value, table.term) for server in {*tables} - changed})
            if not changed:
                return
            found = await self.look([table.upstream], skip)
            tables = {server: held for server, held in found.items() if server in changed}
            if await self.highest_term(tables) > table.term:
                raise memcached.Unavailable("another controller leads by now, and has written its own table")
        servers = ", ".join(sorted(changed))
        raise memcached.Unavailable(f"somebody else writes the table again and again ({servers})")

    def forget(self, upstream: str) -> None:
        """Drop what is known of an upstream's tables."""
        key = wire.weights_key(upstream)
        self._judged = {at: seen for at, seen in self._judged.items() if at[1] != key}
        self._complained_s = {at: s for at, s in self._complained_s.items() if at[0] != upstream}

    async def _judge(self, server: str, key: str, value: bytes) -> WeightTable | None:
        """Return a published table; None, and say so, where it cannot be believed."""
        table = await asyncio.to_thread(signature.read, self._key, value, weight_table.decode)
        upstream = key.removeprefix(wire.weights_key(""))
        if not isinstance(table, Refused) and table.upstream != upstream:
            table = Refused("name", f"the key holds the table of {table.upstream}")
        again = self._judged.get((server, key), (None, 0))[0] == value
        if not isinstance(table, Refused):
            self._judged[server, key] = (value, table.term)
            return table
        self._judged[server, key] = (value, 0)
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

    def _value(self, table: WeightTable) -> bytes:
        text = weight_table.encode(table)
        return text if self._key is None else signature.sign(self._key, text)
