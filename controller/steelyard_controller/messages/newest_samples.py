"""The newest sample of each server of an upstream, in columns, and reading those of many upstreams at once.

Pure. A tick reads tens of thousands of samples, and the laws need their figures in columns. So the figures go
from the values straight into one array for all upstreams of a batch, and each upstream keeps its part of it.
The rest of a sample stays as the bytes that were read. Bytes that are the same as before are not read again.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from steelyard_protocol import derived_keys, replay_guard, sample_reader, sample_record, signature
from steelyard_protocol.sample_reader import Sample
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.wire import Refused

from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.messages.received import (
    SILENT_INTERVALS,
    ReadContext,
    Received,
    judged,
    wrong_sender,
)
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


class NewestSamples(Mapping[str, Received[SampleRecord]]):
    """The newest sample of each server, by server; immutable.

    places    the column of each declared server
    figures   `FIGURES` x k; NaN: unknown, or no sample
    raw       k, the bytes that were read, with their signature; None: no sample
    boots     k, the senders' runs
    further   k, the utilizations beside the four
    ended     the earlier runs of the senders that have any
    """

    __slots__ = ("boots", "ended", "figures", "further", "places", "raw")

    def __init__(
        self,
        places: Mapping[str, int],
        figures: Floats,
        raw: Sequence[bytes | None],
        boots: Sequence[str | None],
        further: Sequence[Mapping[str, float | None]],
        ended: Mapping[str, Runs],
    ) -> None:
        self.places = places
        self.figures = figures
        self.raw = raw
        self.boots = boots
        self.further = further
        self.ended = ended

    @classmethod
    def none(cls, places: Mapping[str, int]) -> "NewestSamples":
        """Return the samples of these servers before any has arrived."""
        count = len(places)
        return cls(
            places, np.full((FIGURES, count), np.nan), [None] * count, [None] * count,
            [NONE_FURTHER] * count, {},
        )  # fmt: skip

    @classmethod
    def of(cls, received: Mapping[str, Received[SampleRecord]]) -> "NewestSamples":
        """Return these samples in columns."""
        samples = cls.none({peer: place for place, peer in enumerate(received)})
        values = [sample_record.encode(each.message) for each in received.values()]
        messages = [each for each in sample_reader.read_all(values) if isinstance(each, Sample)]
        samples.figures[SAMPLE] = _figures(messages)
        samples.figures[ARRIVED_S] = [each.arrived_s for each in received.values()]
        return cls(
            samples.places, samples.figures, values, [each.boot for each in messages],
            [each.further or NONE_FURTHER for each in messages], {},
        )  # fmt: skip

    def __getitem__(self, peer: str) -> Received[SampleRecord]:
        place = self.places[peer]
        value = self.raw[place]
        if value is None:
            raise KeyError(peer)
        message = sample_reader.decode(signature.text_of(value))
        if isinstance(message, Refused):
            raise ValueError(f"the sample of {peer} was accepted, and is {message}")
        figures = self.figures[:, place].tolist()
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
        return peer in self.places and self.raw[self.places[peer]] is not None  # type: ignore[index]

    def __iter__(self) -> Iterator[str]:
        return (peer for peer, value in zip(self.places, self.raw, strict=True) if value is not None)

    def __len__(self) -> int:
        return len(self.raw) - self.raw.count(None)

    def raw_of(self, peer: str) -> bytes | None:
        """Return the bytes of a server's sample; None: it has none."""
        return self.raw[self.places[peer]] if peer in self.places else None

    def utilization(self, peer: str) -> dict[str, float | None] | None:
        """Return the utilizations in a server's sample by indicator; None: it has none.

        An indicator is None if it could not be measured.
        """
        if peer not in self:
            return None
        place = self.places[peer]
        four = self.figures[UTILIZATION, place].tolist()
        known = [None if math.isnan(figure) else figure for figure in four]
        return {**dict(zip(sample_record.INDICATORS, known, strict=True)), **self.further[place]}

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
            return NewestSamples(places, self.figures, self.raw, self.boots, self.further, self.ended)
        new = NewestSamples.none(places)
        raw, boots, further = list(new.raw), list(new.boots), list(new.further)
        for peer in self.places.keys() & places.keys():
            place, before = places[peer], self.places[peer]
            new.figures[:, place] = self.figures[:, before]
            raw[place], boots[place] = self.raw[before], self.boots[before]
            further[place] = self.further[before]
        ended = {peer: runs for peer, runs in self.ended.items() if peer in places}
        return NewestSamples(places, new.figures, raw, boots, further, ended)


class SampleValues(NamedTuple):
    """The values read for the samples of an upstream, k each; None: the key is absent.

    before       the samples of the same servers before this tick
    remembered   senders' clocks as the previous leader saw them
    """

    before: NewestSamples
    values: Sequence[bytes | None]
    context: ReadContext
    remembered: Mapping[str, int]


def receive(upstreams: Sequence[SampleValues]) -> list[tuple[NewestSamples, dict[str, Refused]]]:
    """Return the samples of each upstream after its values were read, and the refusals by server."""
    values = list(chain.from_iterable(each.values for each in upstreams))
    last = list(chain.from_iterable(each.before.raw for each in upstreams))
    changed = {
        place: value
        for place, (value, known) in enumerate(zip(values, last, strict=True))
        if value is not None and value != known
    }
    if not changed:
        return [(each.before, {}) for each in upstreams]
    reading = _Reading(upstreams, last)
    reading.take(changed)
    return reading.ended()


class _Reading:
    """The samples of all upstreams while their new values are read: one column after the other."""

    def __init__(self, upstreams: Sequence[SampleValues], last: list[bytes | None]) -> None:
        self._upstreams = upstreams
        self._sizes = [len(each.values) for each in upstreams]
        self._upstream_of = np.arange(len(upstreams)).repeat(self._sizes)
        befores = [each.before for each in upstreams]
        self._names = list(chain.from_iterable(each.places for each in befores))
        self._figures = np.concatenate([each.figures for each in befores], axis=1)
        self._raw = last
        self._boots = list(chain.from_iterable(each.boots for each in befores))
        self._further = list(chain.from_iterable(each.further for each in befores))
        self._ended: list[Mapping[str, Runs]] = [each.ended for each in befores]
        self._refusals: list[dict[str, Refused]] = [{} for _ in upstreams]

    def take(self, changed: Mapping[int, bytes]) -> None:
        """Take up the changed values, by their places."""
        places = list(changed)
        upstream_of = self._upstream_of[places].tolist()
        seqs = self._figures[SEQ, places].tolist()
        new: list[int] = []
        messages: list[Sample] = []
        read = self._read(changed, upstream_of)
        names, boots = self._names, self._boots
        upstreams = [each.context.upstream for each in self._upstreams]
        for place, number, seq, message in zip(changed, upstream_of, seqs, read, strict=True):
            if (
                isinstance(message, Refused)
                or message.boot != boots[place]
                or not message.seq > seq
                or message.peer != names[place]
                or message.upstream != upstreams[number]
            ):
                name = names[place]
                runs = self._judged(message, name, number)
                if runs is None:
                    continue
                if isinstance(runs, Refused) or isinstance(message, Refused):
                    self._refusals[number][name] = runs
                    continue
                self._begin_run(place, number, message, runs)
            new.append(place)
            messages.append(message)
            self._raw[place] = changed[place]
            self._further[place] = message.further or NONE_FURTHER
        if new:
            self._figures[SAMPLE, new] = _figures(messages)
            self._estimate_ends(new)

    def ended(self) -> list[tuple[NewestSamples, dict[str, Refused]]]:
        """Return the samples of each upstream, and its refusals."""
        ended = []
        first = 0
        for number, (upstream, size) in enumerate(zip(self._upstreams, self._sizes, strict=True)):
            mine = slice(first, first + size)
            first += size
            samples = NewestSamples(
                upstream.before.places,
                self._figures[:, mine],
                self._raw[mine],
                self._boots[mine],
                self._further[mine],
                self._ended[number],
            )
            ended.append((samples, self._refusals[number]))
        return ended

    def _read(self, changed: Mapping[int, bytes], upstream_of: Sequence[int]) -> Sequence[Sample | Refused]:
        """Return the message in each changed value, or why it is refused."""
        values = list(changed.values())
        without_key = all(each.context.keys.shared is None for each in self._upstreams)
        if without_key and all(value.startswith(b"{") for value in values):  # No signature begins so.
            return sample_reader.read_all(values)
        texts: list[bytes | Refused] = []
        for (place, value), number in zip(changed.items(), upstream_of, strict=True):
            context = self._upstreams[number].context
            signer = derived_keys.agent(context.upstream, self._names[place])
            texts.append(context.keys.open_value(value, signer))
        messages = iter(sample_reader.read_all([each for each in texts if not isinstance(each, Refused)]))
        return [each if isinstance(each, Refused) else next(messages) for each in texts]

    def _judged(self, message: Sample | Refused, name: str, number: int) -> Runs | Refused | None:
        """Return what `judged` does for a message that is not plainly the next one of its run."""
        if isinstance(message, Refused):
            return message
        upstream = self._upstreams[number]
        context = upstream.context
        if (message.upstream, message.peer) != (context.upstream, name):
            return sample_reader.wrong_name(message) or wrong_sender(message, message.peer)
        last = upstream.before.get(name)
        return judged(message, message.taken_at_ms, last, context, upstream.remembered.get(name))

    def _begin_run(self, place: int, number: int, message: Sample, runs: Runs) -> None:
        if message.boot == self._boots[place]:
            return
        self._boots[place] = message.boot
        self._figures[OFFSET, place] = np.nan
        if runs:
            self._ended[number] = {**self._ended[number], self._names[place]: runs}

    def _estimate_ends(self, new: Sequence[int]) -> None:
        """Note the arrival of the new samples, and estimate the ends of their windows."""
        contexts = [each.context for each in self._upstreams]
        upstream_of = self._upstream_of[new]
        seen_s = np.array([each.now_s for each in contexts])[upstream_of]
        last_read_s = np.array([each.last_read_s for each in contexts])[upstream_of]
        synchronized_s = np.array([each.synchronized_s for each in contexts], dtype=float)[upstream_of]
        sent_s = self._figures[TAKEN_AT_MS, new] / 1000
        offset = SenderOffset.of(
            sent_s, last_read_s=last_read_s, seen_s=seen_s, before=SenderOffset(*self._figures[OFFSET, new])
        )
        # Without an earlier read, a sample may have been there for long.
        known = np.isfinite(last_read_s)
        ends_s = offset.received_s(sent_s, synchronized_s)
        self._figures[ARRIVED_S, new] = seen_s
        self._figures[WINDOW_END_S, new] = np.where(known, ends_s, np.nan)
        self._figures[OFFSET, new] = np.where(known, np.array(offset), np.nan)


def _figures(messages: Sequence[Sample]) -> Floats:
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
    return np.array(rows, dtype=float).reshape(-1, SAMPLE.stop).T
