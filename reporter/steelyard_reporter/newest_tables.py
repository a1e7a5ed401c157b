"""The newest weight table of each upstream, from Memcached. I/O only.

A table is accepted if it can be read, is of this upstream, is newer than the last one, and is signed if there
is a key. Otherwise the last one stays. Each server of the pool has the table. If one has nothing newer, the
next is asked: the controller may no longer reach the first. A chunked table (`table_chunks`) is read with all
of its chunks or not at all.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace
from steelyard_protocol import signature, table_chunks, wire
from steelyard_protocol.memcached_client import Unavailable
from steelyard_protocol.table_chunks import Manifest
from steelyard_protocol.weight_table import WeightTable
from steelyard_protocol.wire import Refused

# Memcached keeps a table for a day; one hour more covers a clock with a wrong time zone. An older recording
# that comes back is refused for its age (docs/decisions/0014-replay.md).
OLDEST_MS = 25 * 3600 * 1000

GetMany = Callable[[Sequence[str]], Mapping[str, bytes]]
"""Returns the values of the existing keys, or raises `Unavailable`: `MemcachedClient.get_many`."""


class Tables:
    """The tables of some upstreams, from servers by name; `keys` may have signed them.

    `wall_clock` is seconds since 1970.
    """

    def __init__(
        self,
        servers: Mapping[str, GetMany],
        upstreams: Sequence[str],
        *,
        keys: Sequence[bytes],
        wall_clock: Callable[[], float],
    ) -> None:
        self._servers = servers
        self._upstreams = upstreams
        self._keys = keys
        self._wall_clock = wall_clock
        self._newest: dict[str, WeightTable] = {}
        self._seen: dict[tuple[str, str], bytes] = {}

    @property
    def newest(self) -> Mapping[str, WeightTable]:
        """The newest table of each upstream."""
        return self._newest

    def fetch(self) -> dict[str, str]:
        """Take over newer tables; return by upstream why there is none, or none that is accepted."""
        faults: dict[str, str] = {}
        missing = {upstream: wire.weights_key(upstream) for upstream in self._upstreams}
        for name, get_many in self._servers.items():
            try:
                values = get_many([*missing.values()])
            except Unavailable:
                continue  # the writer of the reports logs that
            for upstream, key in [*missing.items()]:
                if key not in values:
                    continue
                value = values[key]
                if self._seen.get((name, upstream)) == value:
                    continue
                fault, is_newer = self._take(upstream, value, get_many)
                if fault is None:
                    self._seen[name, upstream] = value
                else:
                    faults[upstream] = fault
                if is_newer:
                    del missing[upstream]
                    faults.pop(upstream, None)
            if not missing:
                break
        return {
            upstream: f"Memcached has no weight table of {upstream}: is it declared, does a controller run?"
            for upstream in missing
            if upstream not in self._newest
        } | faults

    def _take(self, upstream: str, value: bytes, get_many: GetMany) -> tuple[str | None, bool]:
        """Return why a value is no table to follow, and whether it was newer and is followed now."""
        message = self._read(value)
        if isinstance(message, Refused):
            return _refused(upstream, str(message)), False
        head = message.table if isinstance(message, Manifest) else message
        if head.upstream != upstream:
            return _refused(upstream, f"that of {head.upstream}"), False
        last = self._newest.get(upstream)
        if last is not None and head.order <= last.order:
            return None, False
        if last is None and self._keys and head.issued_at_ms < 1000 * self._wall_clock() - OLDEST_MS:
            return (
                f"the weight table of {upstream} is more than 25 hours old: "
                "look at this clock and the controller's"
            ), False
        table = self._joined(message, last, get_many) if isinstance(message, Manifest) else message
        if isinstance(table, Refused):
            return _refused(upstream, str(table)), False
        self._newest[upstream] = table
        return None, True

    def _joined(
        self, manifest: Manifest, last: WeightTable | None, get_many: GetMany
    ) -> WeightTable | Refused:
        head, weights = manifest.table, manifest.weights
        if last is not None and last.digest == head.digest and len(last.peers) == len(weights):
            # The rows are those of the last one, but for the weights.
            peers = (replace(peer, weight=weight) for peer, weight in zip(last.peers, weights, strict=True))
            return replace(head, peers=tuple(peers))
        keys = [wire.chunk_key(head.upstream, name) for name in manifest.chunks]
        try:
            chunks = get_many(keys)
        except Unavailable as error:
            return Refused("missing", f"its {len(keys)} chunks could not be read: {error}")
        if missing := len([key for key in keys if key not in chunks]):
            return Refused("missing", f"{missing} of its {len(keys)} chunks are not in Memcached")
        texts = [self._opened(chunks[key]) for key in keys]
        refused = next((text for text in texts if isinstance(text, Refused)), None)
        return refused or table_chunks.join(manifest, [text for text in texts if isinstance(text, bytes)])

    def _read(self, value: bytes) -> WeightTable | Manifest | Refused:
        text = self._opened(value)
        return text if isinstance(text, Refused) else table_chunks.decode(text)

    def _opened(self, value: bytes) -> bytes | Refused:
        text: bytes | Refused = Refused("signature", "there is no key")
        for key in self._keys or (None,):
            text = signature.open_value(key, value)
            if not isinstance(text, Refused) or text.reason != "signature":
                break
        return text


def _refused(upstream: str, why: str) -> str:
    return f"the weight table of {upstream} is {why}; the last good one is kept"
