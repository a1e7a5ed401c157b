"""The published weight tables in Memcached: read, checked and replaced here.

I/O around `weight_table`. Tables are ordered by (term, generation). A write
replaces only the table that was read (compare and swap). If another program
wrote a table in between, that table is read and checked first. The tables of
many upstreams take two round trips: first the tables, then their heads. nginx
reads a head in place of its table when it can; this controller reads no heads.
If one item cannot hold a table, its key has the manifest, and `published_chunks`
has the rows.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from steelyard_protocol import derived_keys, table_chunks, weight_table, wire
from steelyard_protocol.memcached_client import Seen, Unavailable
from steelyard_protocol.memcached_pool import Forbidden, MemcachedPool, NoServer
from steelyard_protocol.table_chunks import CHUNK_BYTES, ITEM_BYTES, Manifest
from steelyard_protocol.weight_table import WeightTable
from steelyard_protocol.wire import Refused

from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.published_chunks import PublishedChunks

log = logging.getLogger("steelyard.controller")

# A table outlives its controller by this long, so that a new leader can read the order from it.
TABLE_TTL_S = 86_400

# nginx reads the table itself if the head does not rise, so this only bounds the life of a useless head. A
# leader that stops between its two writes and wakes under another leader leaves one until the next tick.
HEAD_TTL_S = 10

# Forged tables are logged once a minute for each reason, so that nobody can fill the log.
COMPLAIN_EVERY_S = 60.0

# A tick lies between the first read and write, a millisecond between later ones. A writer that gets in
# between this often writes without a pause.
MOST_WRITES = 3

Held = Mapping[str, Mapping[str, Seen]]
"""The values of the requested keys at each server: server -> key -> value."""

Put = Mapping[str, Mapping[str, bool | str]]
"""The result of a write: server -> key -> whether the value is there, or why not."""


class _Checked(Struct, frozen=True):
    """A server's value of a key, with the term of its table (0: it was refused) and its chunks."""

    value: bytes
    term: int
    chunks: tuple[str, ...] = ()


class _Encoded(Struct, frozen=True):
    """A table for Memcached under its key, and its head."""

    key: str
    table: WeightTable
    held: _Checked
    head: bytes


class PublishedTables:
    """The published tables as this controller last read and wrote them.

    keys         with a shared key, only signed tables are accepted
    refused      called for each table that is refused
    item_bytes   a larger table is written in chunks
    clock        monotonic
    """

    def __init__(
        self,
        pipeline: MemcachedPool,
        *,
        keys: Keyring,
        refused: Callable[[str, Refused], None],
        item_bytes: int = ITEM_BYTES,
        chunk_bytes: int = CHUNK_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._refused = refused
        self._item_bytes = item_bytes
        self._clock = clock
        self._chunks = PublishedChunks(
            pipeline=pipeline,
            keys=keys,
            ttl_s=TABLE_TTL_S,
            chunk_bytes=chunk_bytes,
            clock=clock,
        )
        # By server, then by key.
        self._checked: dict[str, dict[str, _Checked]] = {}
        self._complained_s: dict[tuple[str, str], float] = {}

    async def read(self, upstreams: Sequence[str], skip: set[str]) -> Held:
        """Return each server's tables of these upstreams, undecoded; empty if no server answers."""
        try:
            return await self._pipeline.seen([wire.weights_key(upstream) for upstream in upstreams], skip)
        except Unavailable:
            return {}

    async def highest_term(self, tables: Held) -> int:
        """Return the highest term among these tables; 0 if none is accepted."""
        new: dict[tuple[str, str], bytes] = {}
        for server, held in tables.items():
            known = self._checked.get(server, {})
            new |= {
                (server, key): seen.value
                for key, seen in held.items()
                if (its := known.get(key)) is None or its.value != seen.value
            }
        await self._check(new)
        # A table may have been forgotten meanwhile.
        terms = {
            its.term
            for server, held in tables.items()
            for its in map(self._checked.get(server, {}).get, held)
            if its is not None
        }
        return max(terms, default=0)

    def of_term(self, term: int) -> str:
        """Return the name of an upstream whose table in Memcached has this term; empty if there is none."""
        of_term = (key for known in self._checked.values() for key, its in known.items() if its.term == term)
        return next(of_term, "").removeprefix(wire.weights_key(""))

    async def latest(self, upstreams: Iterable[str]) -> dict[str, WeightTable]:
        """Return the latest table of each of these upstreams that has one.

        A table without rows has lost its chunks; its order is still the latest one.
        """
        read = await self.read(sorted(upstreams), set())
        values = {(server, key): seen.value for server, held in read.items() for key, seen in held.items()}
        tables: dict[str, WeightTable | Manifest] = {}
        for table in await self._check(values):
            known = tables.get(_table(table).upstream)
            if known is None or _table(known).order < _table(table).order:
                tables[_table(table).upstream] = table
        return {name: await self._whole(table) for name, table in tables.items()}

    async def _whole(self, table: WeightTable | Manifest) -> WeightTable:
        if isinstance(table, WeightTable):
            return table
        whole = await self._chunks.read(table)
        if isinstance(whole, WeightTable):
            return whole
        upstream = table.table.upstream
        log.warning(
            "%s: the rows of the published weight table are %s; only its order is used", upstream, whole,
            extra={"event": "refused", "upstream": upstream},
        )  # fmt: skip
        return table.table

    async def publish(
        self, tables: Sequence[WeightTable], held: Held, *, certain: Callable[[], bool], skip: set[str]
    ) -> dict[str, Exception]:
        """Replace the `held` tables by `tables`, and also later ones, unless their term is higher.

        Returns, by upstream, why a server that answered does not hold its table afterwards: `Unavailable`,
        `TableTooLarge`, or a bug. If no server answers, that is no fault of a table: the pool has the fault
        of each server. Raises `Forbidden`.
        """
        left: list[_Encoded] = []
        failed: dict[str, Exception] = {}
        for table in tables:
            try:
                left.append(await self._make(table, certain, skip))
            except Forbidden:
                raise
            except NoServer:
                return failed
            except Exception as error:
                failed[table.upstream] = error
        for _ in range(MOST_WRITES):
            if not left:
                return failed
            try:
                put = await self._pipeline.replace(
                    {each.key: each.held.value for each in left},
                    held,
                    ttl_s=TABLE_TTL_S,
                    allowed=certain,
                    skip=skip,
                    then={each.key: {wire.head_key(each.table.upstream): each.head} for each in left},
                    then_ttl_s=HEAD_TTL_S,
                )
            except NoServer:
                return failed
            more = self._without_simply_held(left, put)
            left = [each for each in more if await self._is_changed(each, put, failed, skip)]
            held = await self._read_again(left, failed, skip) if left else {}
            left = [each for each in left if each.table.upstream not in failed]
        for each in left:
            servers = ", ".join(server for server in sorted(put) if put[server][each.key] is False)
            why = f"another program keeps overwriting the table ({servers})"
            failed[each.table.upstream] = Unavailable(why)
        return failed

    async def _make(self, table: WeightTable, certain: Callable[[], bool], skip: set[str]) -> _Encoded:
        text = weight_table.encode(table)
        chunks: tuple[str, ...] = ()
        if len(text) > self._item_bytes:
            chunks = await self._chunks.put(table, certain=certain, skip=skip)
            text = table_chunks.encode_manifest(table, chunks)
        else:
            self._chunks.forget(table.upstream)
        held = _Checked(value=self._keys.signed_table(text), term=table.term, chunks=chunks)
        return _Encoded(
            key=wire.weights_key(table.upstream),
            table=table,
            held=held,
            head=self._keys.signed_table(weight_table.encode_head(table)),
        )

    def _without_simply_held(self, encoded: Sequence[_Encoded], put: Put) -> list[_Encoded]:
        """Note the tables that every server that was asked holds now; return those with more to do."""
        more = set[str]()
        for server, answers in put.items():
            known = self._checked.get(server, {})
            more |= {key for key, answer in answers.items() if answer is not True}
            more |= {key for key in answers if (before := known.get(key)) is not None and before.chunks}
        held = {each.key: each.held for each in encoded if each.key not in more}
        for server in put:
            self._checked.setdefault(server, {}).update(held)
        return [each for each in encoded if each.key in more] if more else []

    async def _is_changed(
        self, encoded: _Encoded, put: Put, failed: dict[str, Exception], skip: set[str]
    ) -> bool:
        """Note where a table is now; return whether a server holds another value, written in between."""
        taken = {server: each[encoded.key] for server, each in put.items()}
        await self._note(encoded, {server for server in taken if taken[server] is True}, skip)
        for server, why in taken.items():
            if isinstance(why, str):
                failed[encoded.table.upstream] = Unavailable(f"{server}: {why}")
        return False in taken.values()

    async def _read_again(
        self, encoded: Sequence[_Encoded], failed: dict[str, Exception], skip: set[str]
    ) -> Held:
        """Return the servers' current tables; a table has `failed` if one of a higher term is there."""
        held = await self.read([each.table.upstream for each in encoded], skip)
        await self.highest_term(held)
        for each in encoded:
            # A table may have been forgotten meanwhile.
            checked = [
                self._checked.get(server, {}).get(each.key) for server in held if each.key in held[server]
            ]
            if max((known.term for known in checked if known), default=0) > each.table.term:
                why = "another controller leads by now, and has written its own table"
                failed[each.table.upstream] = Unavailable(why)
        return held

    async def _note(self, encoded: _Encoded, servers: set[str], skip: set[str]) -> None:
        """Note that these servers hold the table now, and let the chunks of their previous ones expire."""
        retired = {}
        for server in servers:
            known = self._checked.setdefault(server, {})
            before = known.get(encoded.key)
            known[encoded.key] = encoded.held
            if before and before.chunks:
                retired[server] = [name for name in before.chunks if name not in encoded.held.chunks]
        if any(retired.values()):
            await self._chunks.retire(encoded.table.upstream, retired, skip=skip)

    def forget(self, upstream: str) -> None:
        """Drop an upstream's tables from the cache of checked tables."""
        key = wire.weights_key(upstream)
        for known in self._checked.values():
            known.pop(key, None)
        self._chunks.forget(upstream)
        self._complained_s = {at: s for at, s in self._complained_s.items() if at[0] != upstream}

    async def _check(self, values: Mapping[tuple[str, str], bytes]) -> list[WeightTable | Manifest]:
        """Return the accepted tables among these values; log and count the refused ones."""
        if not values:
            return []
        # One thread for all: with thousands of upstreams, a change of threads takes as long as a table.
        decoded = await asyncio.to_thread(lambda: [self._decoded(value) for value in values.values()])
        tables = []
        for (at, value), table in zip(values.items(), decoded, strict=True):
            server, key = at
            upstream = key.removeprefix(wire.weights_key(""))
            if not isinstance(table, Refused) and _table(table).upstream != upstream:
                table = Refused("name", f"the key holds the table of {_table(table).upstream}")
            known = self._checked.setdefault(server, {})
            before = known.get(key)
            if not isinstance(table, Refused):
                chunks = table.chunks if isinstance(table, Manifest) else ()
                known[key] = _Checked(value=value, term=_table(table).term, chunks=chunks)
                tables.append(table)
                continue
            known[key] = _Checked(value=value, term=0)
            if before is None or before.value != value:
                self._refused(upstream, table)
                self._complain(upstream, table)
        return tables

    def _complain(self, upstream: str, refused: Refused) -> None:
        at, now_s = (upstream, refused.reason), self._clock()
        if now_s - self._complained_s.get(at, -math.inf) < COMPLAIN_EVERY_S:
            return
        self._complained_s[at] = now_s
        log.warning(
            "%s: the published weight table is %s; its order is not used", upstream, refused,
            extra={"event": "refused", "upstream": upstream},
        )  # fmt: skip

    def _decoded(self, value: bytes) -> WeightTable | Manifest | Refused:
        text = self._keys.open_value(value, derived_keys.TABLES)
        return text if isinstance(text, Refused) else table_chunks.decode(text)


def _table(published: WeightTable | Manifest) -> WeightTable:
    return published.table if isinstance(published, Manifest) else published
