"""The newest weight table of each upstream, from Memcached. I/O only.

A table is taken if it can be read, is signed where there is a key, is of this upstream, and is newer than
the last one; otherwise the last one stays. Each server of the pool has it, so the first that answers with
one will do.
"""

from collections.abc import Callable, Sequence

from steelyard_protocol import signature, weight_table, wire
from steelyard_protocol.memcached_client import MemcachedClient, Unavailable
from steelyard_protocol.weight_table import WeightTable
from steelyard_protocol.wire import Refused

# Memcached keeps a table for a day; one hour more is for a clock that is wrong by a time zone. What was
# recorded longer ago and is put back is known by that (docs/decisions/0014-replay.md).
OLDEST_MS = 25 * 3600 * 1000


class Tables:
    """The tables of some upstreams; `keys` may have signed them, `wall_clock` is seconds since 1970."""

    def __init__(
        self,
        clients: Sequence[MemcachedClient],
        upstreams: Sequence[str],
        *,
        keys: Sequence[bytes],
        wall_clock: Callable[[], float],
    ) -> None:
        self.newest: dict[str, WeightTable] = {}
        self._clients = clients
        self._upstreams = upstreams
        self._keys = keys
        self._wall_clock = wall_clock
        self._raw: dict[str, bytes] = {}

    def fetch(self) -> dict[str, str]:
        """Take over what is newer; return by upstream why there is no table, or none that is believed."""
        keys = {upstream: wire.weights_key(upstream) for upstream in self._upstreams}
        found: dict[str, bytes] = {}
        for client in self._clients:
            try:
                found = client.get_many([*keys.values()]) | found
            except Unavailable:
                continue  # whoever writes the reports to it says so
            if len(found) == len(keys):
                break
        faults = {upstream: self._take(upstream, found.get(key)) for upstream, key in keys.items()}
        return {upstream: why for upstream, why in faults.items() if why is not None}

    def _take(self, upstream: str, value: bytes | None) -> str | None:
        if value is None:
            if upstream in self.newest:
                return None
            return f"Memcached has no weight table of {upstream}: is it declared, and does a controller run?"
        if value == self._raw.get(upstream):
            return None
        table = self._read(value)
        if isinstance(table, Refused):
            return f"the weight table of {upstream} is {table}; the last good one is kept"
        if table.upstream != upstream:
            return f"the weight table of {upstream} is that of {table.upstream}; the last good one is kept"
        last = self.newest.get(upstream)
        if last is None and self._keys and table.issued_at_ms < 1000 * self._wall_clock() - OLDEST_MS:
            return (
                f"the weight table of {upstream} is more than 25 hours old: "
                "look at this clock and the controller's"
            )
        if last is None or table.order > last.order:
            self.newest[upstream], self._raw[upstream] = table, value
        return None

    def _read(self, value: bytes) -> WeightTable | Refused:
        if not self._keys:
            return signature.read(None, value, weight_table.decode)
        refused: WeightTable | Refused = Refused("signature", "there is no key")
        for key in self._keys:
            refused = signature.read(key, value, weight_table.decode)
            if not isinstance(refused, Refused) or refused.reason != "signature":
                break
        return refused
