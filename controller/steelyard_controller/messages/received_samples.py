"""Reads the samples of many upstreams at once, and decides which are the newest of their servers.

Pure. Bytes that are the same as before are not read again. Samples that are plainly the next ones of their
servers' runs are taken as they are, usually all of them together. The others are judged one by one.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from operator import gt
from typing import cast

import numpy as np
from msgspec import Struct
from steelyard_protocol import derived_keys, sample_reader
from steelyard_protocol.sample_reader import Sample
from steelyard_protocol.wire import Refused

from steelyard_controller.messages.newest_samples import (
    ARRIVED_S,
    NONE_FURTHER,
    OFFSET,
    SAMPLE,
    SEQ,
    TAKEN_AT_MS,
    WINDOW_END_S,
    NewestSamples,
    Runs,
    SampleColumns,
    figures_of,
    put_together,
)
from steelyard_controller.messages.received import ReadContext, judged, wrong_sender
from steelyard_controller.messages.sender_offset import SenderOffset

# The messages that are read at once. With a few hundred of them, their objects are still in the processor's
# cache when the columns are made of them.
READ_AT_ONCE = 256


class SampleValues(Struct, frozen=True):
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
    before = put_together([each.before for each in upstreams])
    changed = {
        place: value
        for place, (value, known) in enumerate(zip(values, before.raw, strict=True))
        if value is not None and value != known
    }
    if not changed:
        return [(each.before, {}) for each in upstreams]
    reading = _Reading(upstreams, before)
    reading.take(changed)
    return reading.ended()


class _Reading:
    """The samples of all upstreams while their new values are read: one column after the other."""

    def __init__(self, upstreams: Sequence[SampleValues], before: SampleColumns) -> None:
        self._upstreams = upstreams
        self._sizes = [len(each.values) for each in upstreams]
        self._upstream_of = np.arange(len(upstreams)).repeat(self._sizes)
        self._upstream_names = [each.context.upstream for each in upstreams]
        self._has_no_key = all(each.context.keys.shared is None for each in upstreams)
        self._names = before.names
        self._figures = before.figures.copy()
        self._raw = list(before.raw)
        self._boots = list(before.boots)
        self._further = list(before.further)
        self._ended: list[Mapping[str, Runs]] = [each.before.ended for each in upstreams]
        self._refusals: list[dict[str, Refused]] = [{} for _ in upstreams]

    def take(self, changed: Mapping[int, bytes]) -> None:
        """Take up the changed values, by their places."""
        places, values, new = list(changed), list(changed.values()), list[int]()
        for first in range(0, len(places), READ_AT_ONCE):
            some = slice(first, first + READ_AT_ONCE)
            new += self._take_some(places[some], values[some])
        if new:
            self._estimate_ends(new)

    def _take_some(self, places: list[int], values: Sequence[bytes]) -> list[int]:
        """Take up changed values, but for the ends of their windows; return the places of the new samples."""
        upstream_of = self._upstream_of[places].tolist()
        read = self._read(places, values, upstream_of)
        messages = cast("list[Sample]", read)
        are_next = {*map(type, read)} == {Sample} and self._are_next(places, messages, upstream_of)
        if not are_next:
            seqs = self._figures[SEQ, places].tolist()
            new = [
                (place, value, cast("Sample", each))
                for place, value, number, seq, each in zip(
                    places, values, upstream_of, seqs, read, strict=True
                )
                if self._is_next(each, seq, place, number) or self._is_accepted(each, place, number)
            ]
            places, values = [place for place, *_ in new], [value for _, value, _ in new]
            messages = [each for *_, each in new]
        for place, value, message in zip(places, values, messages, strict=True):
            self._raw[place] = value
            self._further[place] = message.further or NONE_FURTHER
        self._figures[SAMPLE, places] = figures_of(messages)
        return places

    def _are_next(
        self, places: Sequence[int], messages: Sequence[Sample], upstream_of: Sequence[int]
    ) -> bool:
        """Return whether each message is the next one of its server's run, as `_is_next` does for one."""
        upstreams = self._upstream_names
        return (
            all(map(gt, [each.seq for each in messages], self._figures[SEQ, places].tolist()))
            and [each.boot for each in messages] == [self._boots[place] for place in places]
            and [each.peer for each in messages] == [self._names[place] for place in places]
            and [each.upstream for each in messages] == [upstreams[number] for number in upstream_of]
        )

    def _is_next(self, message: Sample | Refused, seq: float, place: int, number: int) -> bool:
        """Return whether a message is plainly the next one of its server's run."""
        return (
            isinstance(message, Sample)
            and message.seq > seq
            and message.boot == self._boots[place]
            and message.peer == self._names[place]
            and message.upstream == self._upstream_names[number]
        )

    def _is_accepted(self, message: Sample | Refused, place: int, number: int) -> bool:
        """Return whether a message that is not plainly the next one counts; note why it is refused."""
        name = self._names[place]
        if isinstance(message, Refused):
            self._refusals[number][name] = message
            return False
        runs = self._judged(message, name, number)
        if isinstance(runs, Refused):
            self._refusals[number][name] = runs
        elif runs is not None:
            self._begin_run(place, number, message, runs)
            return True
        return False

    def ended(self) -> list[tuple[NewestSamples, dict[str, Refused]]]:
        """Return the samples of each upstream, and its refusals."""
        columns = SampleColumns(
            names=self._names,
            figures=self._figures,
            raw=self._raw,
            boots=self._boots,
            further=self._further,
        )
        firsts = accumulate(self._sizes, initial=0)
        return [
            (NewestSamples(each.before.places, columns, first, runs), refusals)
            for each, first, runs, refusals in zip(
                self._upstreams, firsts, self._ended, self._refusals, strict=False
            )
        ]

    def _read(
        self, places: Sequence[int], values: Sequence[bytes], upstream_of: Sequence[int]
    ) -> Sequence[Sample | Refused]:
        """Return the message in each changed value, or why it is refused."""
        if self._has_no_key and {value[:1] for value in values} == {b"{"}:  # No signature begins so.
            return sample_reader.read_all(values)
        texts: list[bytes | Refused] = []
        for place, value, number in zip(places, values, upstream_of, strict=True):
            context = self._upstreams[number].context
            signer = derived_keys.agent(context.upstream, self._names[place])
            texts.append(context.keys.open_value(value, signer))
        messages = iter(sample_reader.read_all([each for each in texts if not isinstance(each, Refused)]))
        return [each if isinstance(each, Refused) else next(messages) for each in texts]

    def _judged(self, message: Sample, name: str, number: int) -> Runs | Refused | None:
        """Return what `judged` does for a message that is not plainly the next one of its run."""
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
