"""Weight tables too large for one Memcached item: a manifest, and the rows in chunks.

Pure. The consumers are nginx (openresty/steelyard/lib/steelyard/core/table_chunks.lua), HAProxy's reporter
and a controller that begins to lead; all ends are tested on docs/contract/chunks.json.

    steelyard:1:weights:<upstream>       the manifest: the table's members, "chunks", "weights"; no "peers"
    steelyard:1:chunk:<upstream>:<name>  {"v":1,"upstream":..,"digest":..,"part":1,"peers":[..]}

A row in a chunk has the weight 1, so chunks change with the table's digest only; the manifest has the
weights. A chunk's name is a digest of its content: two writers of one name write the same bytes. The manifest
is replaced in one step, and changes the table as a whole. A reader unaware of chunks misses "peers" in the
manifest, refuses it and keeps its table.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from steelyard_protocol import weight_table, wire
from steelyard_protocol.typed_json import Count, Name, TypedReader
from steelyard_protocol.weight_table import Members, TablePeer, Weight, WeightTable
from steelyard_protocol.wire import InvalidMessage, Refused

# Memcached's 1 MB covers the item's header and key too, and a signature; a kilobyte is ample for those.
ITEM_BYTES = wire.MAX_BYTES - 1024

# Well below an item: Memcached's pages hold whole items only, and the rest of a page is lost.
CHUNK_BYTES = 900_000

# Ten hold MAX_TABLE_BYTES; no manifest can make a reader ask for thousands.
MAX_CHUNKS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The value of a chunked table's key; `table` is the table without its rows."""

    table: WeightTable
    weights: tuple[int, ...]
    chunks: tuple[str, ...]


def name_of(value: bytes) -> str:
    """Return the name of a chunk for its Memcached value, signature included."""
    return hashlib.blake2b(value, digest_size=16).hexdigest()


def split(table: WeightTable, chunk_bytes: int = CHUNK_BYTES) -> list[bytes]:
    """Return the texts of the chunks of a table with a digest."""
    return [
        b'{"v":%d,"upstream":"%s","digest":"%s","part":%d,"peers":[%s]}'
        % (wire.VERSION, table.upstream.encode(), str(table.digest).encode(), part, b",".join(rows))
        for part, rows in enumerate(_parts(table.peers, chunk_bytes), start=1)
    ]


def _parts(peers: Sequence[TablePeer], chunk_bytes: int) -> Iterator[list[bytes]]:
    rows: list[bytes] = []
    size = 0
    for peer in peers:
        row = msgspec.json.encode(replace(peer, weight=1))
        if rows and size + len(row) > chunk_bytes:
            yield rows
            rows, size = [], 0
        rows.append(row)
        size += len(row) + 1
    yield rows


def encode_manifest(table: WeightTable, chunks: Sequence[str]) -> bytes:
    """Return the text of the manifest, for the names of the chunks.

    It fits an item: a row of MAX_TABLE_BYTES has 75 bytes at least, and 8 of them at most are here.
    """
    names = {"chunks": chunks, "weights": [peer.weight for peer in table.peers]}
    return msgspec.json.encode({**weight_table.members(table), **names})


class _TableOrManifest(Members, kw_only=True):
    peers: tuple[TablePeer, ...] | UnsetType = UNSET
    chunks: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_CHUNKS)] | UnsetType = UNSET
    weights: tuple[Weight, ...] | UnsetType = UNSET


class _Chunk(Struct):
    v: Literal[1]
    upstream: Name
    digest: Name
    part: Count
    peers: tuple[TablePeer, ...]


_READER = TypedReader(_TableOrManifest)
_CHUNK_READER = TypedReader(_Chunk)


def decode(value: bytes) -> WeightTable | Manifest | Refused:
    """Read the value of a table's key; total, never raises."""
    try:
        message = _READER.read(value)
        if message.peers is not UNSET:
            return weight_table.of_message(message, message.peers)
        if message.chunks is UNSET or message.weights is UNSET or message.digest is UNSET:
            raise InvalidMessage("missing", 'neither "peers" nor all of "chunks", "weights" and "digest"')
        table = weight_table.of_message(message, ())
    except InvalidMessage as bad:
        return bad.refused
    return Manifest(table=table, weights=message.weights, chunks=message.chunks)


def join(manifest: Manifest, texts: Sequence[bytes]) -> WeightTable | Refused:
    """Return the table of a manifest and the texts of its chunks, in their order; total, never raises."""
    try:
        rows = [row for part, text in enumerate(texts, start=1) for row in _rows(text, manifest, part)]
        if len(rows) != len(manifest.weights):
            raise InvalidMessage(
                "range", f"{len(rows)} servers in chunks and {len(manifest.weights)} weights"
            )
        weight_table.check_rows(rows)
    except InvalidMessage as bad:
        return bad.refused
    peers = (replace(row, weight=weight) for row, weight in zip(rows, manifest.weights, strict=True))
    return replace(manifest.table, peers=tuple(peers))


def _rows(text: bytes, manifest: Manifest, part: int) -> Sequence[TablePeer]:
    chunk, table = _CHUNK_READER.read(text), manifest.table
    at = chunk.upstream, chunk.digest, chunk.part
    if at != (table.upstream, table.digest, part):
        raise InvalidMessage("name", f"chunk {part} is part {at[2]} of a table of {at[0]} ({at[1]})")
    return chunk.peers
