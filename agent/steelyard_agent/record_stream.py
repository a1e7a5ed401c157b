"""One server's samples as values for Memcached: numbered, encoded, and signed if there is a key."""

import logging
from collections.abc import Callable

from steelyard_protocol import sample_record, signature, wire
from steelyard_protocol.sample_record import SampleRecord

from steelyard_agent.sample import Indicators, Sample

log = logging.getLogger(__name__)


class RecordStream:
    """The records of one server. `seq` is the number of the last one under this `boot`.

    `wall_clock` is seconds since 1970, for people.
    """

    def __init__(
        self,
        *,
        upstream: str,
        peer: str,
        scope: str,
        boot: str,
        wall_clock: Callable[[], float],
        seq: int = 0,
        key: bytes | None = None,
    ) -> None:
        self._upstream = upstream
        self._peer = peer
        self._scope = scope
        self._boot = boot
        self._wall_clock = wall_clock
        self.seq = seq
        self._key = key
        self.name = f"{upstream}/{peer}"
        self.at = wire.sample_key(upstream, peer)

    def next(self, taken: Sample, *, leaving: bool = False) -> tuple[SampleRecord, bytes]:
        """Return the next record, of this sample, and its value for the key `at`."""
        self.seq += 1
        record = SampleRecord(
            upstream=self._upstream,
            peer=self._peer,
            boot=self._boot,
            seq=self.seq,
            taken_at_ms=int(self._wall_clock() * 1000),
            interval_s=round(taken.interval_s, 6),
            utilization=_columns(taken.utilization, decimals=6),
            capacity=_columns(taken.capacity, decimals=3),
            scope=self._scope,
            leaving=leaving,
            further=tuple((name, _rounded(value, 6)) for name, value in taken.further),
            up_s=_rounded(taken.up_s, 1),
        )
        text = sample_record.encode(record)
        log.debug("%s", text.decode())
        return record, text if self._key is None else signature.sign(self._key, text)


def _columns(values: Indicators, *, decimals: int) -> tuple[float | None, ...]:
    # In the order of record.INDICATORS; no reader resolves a microshare.
    columns = (values.cpu, values.net, values.io, values.mem)
    return tuple(_rounded(value, decimals) for value in columns)


def _rounded(value: float | None, decimals: int) -> float | None:
    return None if value is None else round(value, decimals)
