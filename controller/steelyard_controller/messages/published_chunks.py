"""The chunks of weight tables too large for one Memcached item: written, kept alive and read here.

I/O around `table_chunks`. Chunks are in Memcached before the manifest that names them. Chunks of the previous
manifest live on long enough for a load balancer that has just read it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard_protocol import derived_keys, table_chunks, wire
from steelyard_protocol.memcached_client import Unavailable
from steelyard_protocol.memcached_pool import MemcachedPool
from steelyard_protocol.table_chunks import Manifest
from steelyard_protocol.weight_table import WeightTable
from steelyard_protocol.wire import Refused

from steelyard_controller.messages.keyring import Keyring

# Lost chunks are noticed at the next tick, because it touches each of them. Two changes go unnoticed: chunks
# that another program overwrote, and computed baselines, which the digest leaves out. So all chunks are made
# and written again this often: 0.07 MB/s for 50,000 servers.
REWRITE_S = 60.0

# nginx reads the chunks within a second of the manifest; if it cannot, it asks for the next manifest.
RETIRED_TTL_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunks:
    digest: str | None
    values: Mapping[str, bytes]
    written_s: float


class PublishedChunks:
    """The chunks of this controller's tables; `clock` is monotonic."""

    def __init__(
        self,
        *,
        pipeline: MemcachedPool,
        keys: Keyring,
        ttl_s: int,
        chunk_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._ttl_s = ttl_s
        self._chunk_bytes = chunk_bytes
        self._clock = clock
        self._made: dict[str, _Chunks] = {}

    async def put(
        self, table: WeightTable, *, certain: Callable[[], bool], skip: set[str]
    ) -> tuple[str, ...]:
        """Write the table's chunks to every server that lacks them; return their names, in order.

        Raises `Unavailable` if no server answers, and `Forbidden`.
        """
        chunks, now_s = self._made.get(table.upstream), self._clock()
        afresh = chunks is not None and now_s - chunks.written_s >= REWRITE_S
        if chunks is None or chunks.digest != table.digest or afresh:
            values = await asyncio.to_thread(self._values, table)
            written_s = now_s if chunks is None or not afresh else chunks.written_s
            chunks = _Chunks(digest=table.digest, values=values, written_s=written_s)
        self._made[table.upstream] = chunks
        values = {wire.chunk_key(table.upstream, name): value for name, value in chunks.values.items()}
        await self._pipeline.keep(values, ttl_s=self._ttl_s, afresh=afresh, allowed=certain, skip=skip)
        if afresh:
            self._made[table.upstream] = replace(chunks, written_s=now_s)
        return tuple(chunks.values)

    async def retire(self, upstream: str, names: Mapping[str, Sequence[str]], *, skip: set[str]) -> None:
        """Let these chunks, by server, expire soon."""
        keys = {server: [wire.chunk_key(upstream, name) for name in some] for server, some in names.items()}
        await self._pipeline.expire(keys, ttl_s=RETIRED_TTL_S, skip=skip)

    async def read(self, manifest: Manifest) -> WeightTable | Refused:
        """Return the table of a manifest, or why it cannot be read."""
        keys = [wire.chunk_key(manifest.table.upstream, name) for name in manifest.chunks]
        try:
            chunks = await self._pipeline.get_many(keys)
        except Unavailable:
            chunks = {}
        if missing := len([key for key in keys if key not in chunks]):
            return Refused("missing", f"{missing} of its {len(keys)} chunks are not in Memcached")
        return await asyncio.to_thread(self._joined, manifest, [chunks[key] for key in keys])

    def forget(self, upstream: str) -> None:
        """Drop an upstream's chunks from memory."""
        self._made.pop(upstream, None)

    def _values(self, table: WeightTable) -> dict[str, bytes]:
        values = map(self._keys.signed_table, table_chunks.split(table, self._chunk_bytes))
        return {table_chunks.name_of(value): value for value in values}

    def _joined(self, manifest: Manifest, values: Sequence[bytes]) -> WeightTable | Refused:
        texts = []
        for value in values:
            text = self._keys.open_value(value, derived_keys.TABLES)
            if isinstance(text, Refused):
                return text
            texts.append(text)
        return table_chunks.join(manifest, texts)
