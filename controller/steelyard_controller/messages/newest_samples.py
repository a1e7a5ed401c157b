"""The newest sample of each server of an upstream, in columns that many upstreams share.

Pure. A tick reads tens of thousands of samples, and the laws need their figures in columns. So the figures go
from the values straight into one array for all upstreams of a batch (`received_samples`), and each upstream
looks at its part. The rest of a sample stays as the bytes that were read.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from steelyard_protocol import replay_guard, sample_reader, sample_record, signature
from steelyard_protocol.sample_reader import Sample
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.wire import Refused

from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.messages.received import SILENT_INTERVALS, Received
from steelyard_controller.messages.sender_offset import SenderOffset

# The rows of the figures: those in a sample, then those of its arrival. An integer is exact up to 2^53, the
# largest one in a message.
SEQ, TAKEN_AT_MS, INTERVAL_S, LEAVING, UP_S = range(5)
UTILIZATION, CAPACITY = slice(5, 9), slice(9, 13)
SAMPLE = slice(0, 13)
ARRIVED_S, WINDOW_END_S = 13, 14
OFFSET = slice(15, 18)
FIGURES = 18

NONE_FURTHER: Mapping[str, float | None] = {}

Runs = tuple[replay_guard.Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleColumns:
    """The samples of N servers, of one or more upstreams one after the other; unchanged once they are made.

    names     the servers' names
    figures   `FIGURES` x N; NaN: unknown, or no sample
    raw       the bytes that were read, with their signature; None: no sample
    boots     the senders' runs
    further   the utilizations beside the four
    """

    names: Sequence[str]
    figures: Floats
    raw: Sequence[bytes | None]
    boots: Sequence[str | None]
    further: Sequence[Mapping[str, float | None]]


class NewestSamples(Mapping[str, Received[SampleRecord]]):
    """The newest sample of each server, by server; immutable.

    places    the place of each declared server in the upstream
    columns   the samples of several upstreams; those of this one begin at `first`
    ended     the earlier runs of the senders that have any
    """

    __slots__ = ("columns", "ended", "first", "places")

    def __init__(
        self, places: Mapping[str, int], columns: SampleColumns, first: int, ended: Mapping[str, Runs]
    ) -> None:
        self.places = places
        self.columns = columns
        self.first = first
        self.ended = ended

    @classmethod
    def none(cls, places: Mapping[str, int]) -> "NewestSamples":
        """Return the samples of these servers before any has arrived."""
        count = len(places)
        columns = SampleColumns(
            names=list(places),
            figures=np.full((FIGURES, count), np.nan),
            raw=[None] * count,
            boots=[None] * count,
            further=[NONE_FURTHER] * count,
        )
        return cls(places, columns, 0, {})

    @classmethod
    def of(cls, received: Mapping[str, Received[SampleRecord]]) -> "NewestSamples":
        """Return these samples in columns."""
        places = {peer: place for place, peer in enumerate(received)}
        values = [sample_record.encode(each.message) for each in received.values()]
        messages = [each for each in sample_reader.read_all(values) if isinstance(each, Sample)]
        figures = np.full((FIGURES, len(places)), np.nan)
        figures[SAMPLE] = figures_of(messages)
        figures[ARRIVED_S] = [each.arrived_s for each in received.values()]
        columns = SampleColumns(
            names=list(places),
            figures=figures,
            raw=values,
            boots=[each.boot for each in messages],
            further=[each.further or NONE_FURTHER for each in messages],
        )
        return cls(places, columns, 0, {})

    @property
    def figures(self) -> Floats:
        """Return the figures, `FIGURES` x k."""
        figures: Floats = self.columns.figures[:, self.first : self.first + len(self.places)]
        return figures

    def __getitem__(self, peer: str) -> Received[SampleRecord]:
        value = self.raw_of(peer)
        if value is None:
            raise KeyError(peer)
        message = sample_reader.decode(signature.text_of(value))
        if isinstance(message, Refused):
            raise ValueError(f"the sample of {peer} was accepted, and is {message}")
        figures = self.figures[:, self.places[peer]].tolist()
        known = not math.isnan(figures[WINDOW_END_S])
        return Received(
            message,
            figures[ARRIVED_S],
            message.taken_at_ms,
            self.ended.get(peer, ()),
            figures[WINDOW_END_S] if known else None,
            SenderOffset(*figures[OFFSET]) if known else None,
        )

    def __contains__(self, peer: object) -> bool:
        return peer in self.places and self.columns.raw[self.first + self.places[peer]] is not None  # type: ignore[index]

    def __iter__(self) -> Iterator[str]:
        return (peer for peer, value in zip(self.places, self._raw(), strict=True) if value is not None)

    def __len__(self) -> int:
        return len(self.places) - self._raw().count(None)

    def _raw(self) -> Sequence[bytes | None]:
        return self.columns.raw[self.first : self.first + len(self.places)]

    def raw_of(self, peer: str) -> bytes | None:
        """Return the bytes of a server's sample; None: it has none."""
        return self.columns.raw[self.first + self.places[peer]] if peer in self.places else None

    def utilization(self, peer: str) -> dict[str, float | None] | None:
        """Return the utilizations in a server's sample by indicator; None: it has none.

        An indicator is None if it could not be measured.
        """
        if peer not in self:
            return None
        place = self.first + self.places[peer]
        return _utilization(self.columns.figures[UTILIZATION, place].tolist(), self.columns.further[place])

    def utilizations(self) -> dict[str, dict[str, float | None]]:
        """Return the `utilization` of each server with a sample."""
        end, columns = self.first + len(self.places), self.columns
        figures = self.figures[UTILIZATION].T.tolist()
        rows = zip(self.places, self._raw(), figures, columns.further[self.first : end], strict=True)
        return {peer: _utilization(four, further) for peer, value, four, further in rows if value is not None}

    def arrived_s(self, peer: str) -> float | None:
        """Return when a server's sample arrived; None: it has none."""
        return float(self.figures[ARRIVED_S, self.places[peer]]) if peer in self else None

    def clocks_ms(self) -> dict[str, int]:
        """Return the latest time of each sender's own clock, ms since 1970."""
        return {peer: int(self.figures[TAKEN_AT_MS, self.places[peer]]) for peer in self}

    def silent(self, *, now_s: float, tick_s: float) -> Bools:
        """Return for each server whether it is silent (`received.is_silent`), or has no sample."""
        longest_s = SILENT_INTERVALS * np.maximum(self.figures[INTERVAL_S], tick_s)
        silent: Bools = ~(now_s - self.figures[ARRIVED_S] <= longest_s)
        return silent

    def heard(self, *, since_s: float, now_s: float, tick_s: float) -> set[str]:
        """Return the servers that are not silent, and whose last sample arrived after `since_s`."""
        heard = (self.figures[ARRIVED_S] > since_s) & ~self.silent(now_s=now_s, tick_s=tick_s)
        return {peer for peer, is_heard in zip(self.places, heard.tolist(), strict=True) if is_heard}

    def aligned(self, places: Mapping[str, int]) -> "NewestSamples":
        """Return the samples of these servers, without those of others."""
        if self.places is places:
            return self
        if list(self.places) == list(places):
            return NewestSamples(places, self.columns, self.first, self.ended)
        new, before = NewestSamples.none(places), self.columns
        raw, boots, further = list(new.columns.raw), list(new.columns.boots), list(new.columns.further)
        for peer in self.places.keys() & places.keys():
            place, earlier = places[peer], self.first + self.places[peer]
            new.columns.figures[:, place] = before.figures[:, earlier]
            raw[place], boots[place] = before.raw[earlier], before.boots[earlier]
            further[place] = before.further[earlier]
        columns = replace(new.columns, raw=raw, boots=boots, further=further)
        ended = {peer: runs for peer, runs in self.ended.items() if peer in places}
        return NewestSamples(places, columns, 0, ended)


def _utilization(four: Sequence[float], further: Mapping[str, float | None]) -> dict[str, float | None]:
    # NaN differs from itself. `isnan` would be a call for each figure of each server.
    known = [None if figure != figure else figure for figure in four]
    return {**dict(zip(sample_record.INDICATORS, known, strict=True)), **further}


def put_together(samples: Sequence[NewestSamples]) -> SampleColumns:
    """Return the samples of several upstreams one after the other; not for the caller to change."""
    shared, first = (samples[0].columns if samples else NewestSamples.none({}).columns), 0
    for each in samples:
        if each.columns is not shared or each.first != first:
            break
        first += len(each.places)
    else:
        if first == len(shared.names):
            return shared  # The usual case: those that one tick has read together.
    parts = [(each.columns, slice(each.first, each.first + len(each.places))) for each in samples]
    return SampleColumns(
        names=list(chain.from_iterable(each.places for each in samples)),
        figures=np.concatenate([columns.figures[:, its] for columns, its in parts], axis=1),
        raw=list(chain.from_iterable(columns.raw[its] for columns, its in parts)),
        boots=list(chain.from_iterable(columns.boots[its] for columns, its in parts)),
        further=list(chain.from_iterable(columns.further[its] for columns, its in parts)),
    )


def figures_of(messages: Sequence[Sample]) -> Floats:
    """Return the `SAMPLE` figures of these messages, one column each."""
    rows = [
        (
            each.seq, each.taken_at_ms, each.interval_s, each.leaving, each.up_s,
            used.cpu, used.net, used.io, used.mem,
            limit.cpu_cores, limit.net_bytes_per_s, limit.io_ops_per_s, limit.mem_bytes,
        )
        for each in messages
        for used, limit in ((each.utilization, each.capacity),)
    ]  # fmt: skip
    # numpy reads one long row in two thirds of the time of many short ones.
    figures = np.fromiter(chain.from_iterable(rows), dtype=float, count=SAMPLE.stop * len(rows))
    return figures.reshape(-1, SAMPLE.stop).T
