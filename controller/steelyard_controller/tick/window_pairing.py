"""Pairs each sample with the traffic report of the same window, by their real ages.

Pure. The laws keep the counts of each tick, and look up a sample's counts by its
age (`laws/pairing.py`). So the laws get a sample when the report of its window
has arrived, and its age is that report's age in ticks.

    a report's window      from its end less its interval, to its end. Reports of several load
                           balancers that arrive at one tick are one: their mean, weighted by requests
    a sample's instant     its end less half of the shorter of the two windows
    they belong together   if the instant lies in the window: they share at least half of the shorter

A sample waits for its report until that is overdue. A tick longer than the
windows sees only some of the reports. Then a sample belongs to the report from
the same tick, because the weights have not changed between the two. A sample
without a report goes to the laws all the same, at an age without counts: the
utilization of a server is known without them.

The usual sample belongs to one of the latest reports. These samples are paired for all upstreams at once,
window by window. Only samples that have to wait are looked at one by one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from operator import mul
from typing import NamedTuple

import numpy as np
from steelyard_protocol.traffic_report import TrafficReport

from steelyard_controller.laws.pairing import OLDEST_TICKS
from steelyard_controller.laws.snapshot import Bools, Floats, Ints
from steelyard_controller.messages import newest_samples
from steelyard_controller.messages.newest_samples import NewestSamples
from steelyard_controller.messages.received import Received

# A sample's instant may lie this share of a window beyond its report's window: consecutive windows may have
# a gap of some milliseconds.
TOLERANCE_WINDOWS = 0.05

# The samples of one peer that may wait; more come only from a sender much faster than the ticks.
MOST_WAITING = 4

# A sample goes to the laws without its report after this many ticks or intervals, whichever is longer.
PATIENCE_PERIODS = 2.5

# The pairing is at fault if a peer with requests has this many more unpaired samples than twice the paired
# ones.
UNPAIRED_SAMPLES = 10

# The age of a sample that is not due.
NOT_DUE = -1


class _Window(NamedTuple):
    tick: int
    at_s: float
    end_s: float
    span_s: float
    middle_s: float
    within_s: float


# No sample's instant lies in it.
_NO_WINDOW = _Window(0, nan, nan, nan, nan, nan)


class _Waiting(NamedTuple):
    """A sample that waits for its report: its column of figures, and its utilizations beside the four."""

    figures: Floats
    further: Mapping[str, float | None]

    @property
    def arrived_s(self) -> float:
        return float(self.figures[newest_samples.ARRIVED_S])

    @property
    def interval_s(self) -> float:
        return float(self.figures[newest_samples.INTERVAL_S])

    @property
    def window_end_s(self) -> float:
        end_s = float(self.figures[newest_samples.WINDOW_END_S])
        return self.arrived_s if isnan(end_s) else end_s


_NONE_WAITING: Mapping[str, tuple[_Waiting, ...]] = {}
_NO_COUNTS: Mapping[str, int] = {}


@dataclass(slots=True, kw_only=True, eq=False)
class DueSamples:
    """The samples for the laws at this tick, of one or more upstreams one after the other, N peers in all.

    Its arrays belong to the tick that makes it, and the pairing changes them in place.

    figures     `newest_samples.FIGURES` x N: of the due samples, and of the newest ones of other peers
    further     N, utilizations beside the four, likewise
    age_ticks   N, the counts of a due sample are those of this many ticks ago; `NOT_DUE`: it is not due
    """

    figures: Floats
    further: list[Mapping[str, float | None]]
    age_ticks: Ints

    @property
    def is_due(self) -> Bools:
        """Return for each peer whether its sample is due."""
        is_due: Bools = self.age_ticks != NOT_DUE
        return is_due

    def put_in(self, place: int, sample: _Waiting, age_ticks: int) -> None:
        """Put in a peer's sample that has waited; whether the peer leaves is known from its newest one."""
        leaving = self.figures[newest_samples.LEAVING, place]
        self.figures[:, place] = sample.figures
        self.figures[newest_samples.LEAVING, place] = leaving
        self.further[place] = sample.further
        self.age_ticks[place] = age_ticks


class WindowPairing(NamedTuple):
    """The samples of one upstream that wait, and the windows of the latest reports; immutable.

    windows     oldest first
    overdue_s   the time from which the next report is overdue
    reports     the latest new reports
    waiting     by peer, the oldest first
    counts      by peer, the unpaired samples less twice the paired ones
    """

    tick: int = 0
    windows: tuple[_Window, ...] = ()
    overdue_s: float = 0.0
    reports: tuple[TrafficReport, ...] = ()
    waiting: Mapping[str, tuple[_Waiting, ...]] = _NONE_WAITING
    counts: Mapping[str, int] = _NO_COUNTS

    @property
    def unpaired(self) -> list[str]:
        """Return the peers most of whose samples find no report, though they have requests."""
        if not self.counts:
            return []
        return sorted(peer for peer, count in self.counts.items() if count >= UNPAIRED_SAMPLES)

    def after(
        self, reports: Iterable[Received[TrafficReport]], *, now_s: float, tick_s: float
    ) -> "WindowPairing":
        """Begin the next tick with its reports; those received at `now_s` are new."""
        tick = self.tick + 1
        windows = self.windows
        while windows and windows[0].tick < tick - OLDEST_TICKS:
            windows = windows[1:]
        new = [each for each in reports if each.arrived_s == now_s]
        if not new:
            return self._replace(tick=tick, windows=windows)
        weights = [1 + sum(each.message.completed) for each in new]
        total = sum(weights)
        end_s = sum(map(mul, weights, [each.window_end_s for each in new])) / total
        span_s = sum(map(mul, weights, [each.message.interval_s for each in new])) / total
        within_s = (0.5 + TOLERANCE_WINDOWS) * span_s
        return WindowPairing(
            tick=tick,
            windows=(*windows, _Window(tick, now_s, end_s, span_s, end_s - span_s / 2, within_s)),
            overdue_s=now_s + span_s + tick_s / 2,
            reports=tuple([each.message for each in new]),
            waiting=self.waiting,
            counts=self.counts,
        )

    def settle(
        self,
        samples: NewestSamples,
        arrived: Bools,
        due: DueSamples,
        first: int,
        *,
        now_s: float,
        tick_s: float,
    ) -> "WindowPairing":
        """Let the arrived samples wait that are not due; put those into `due` whose wait is over.

        `arrived` and `due` are of several upstreams; the peers of this one begin at `first`.
        """
        served = self._served() if now_s <= self.overdue_s else ()
        waiting, counts = dict(self.waiting), dict(self.counts)

        def note_paired(peer: str, more: int) -> None:
            if peer in counts:
                counts[peer] = max(0, min(2 * UNPAIRED_SAMPLES, counts[peer] + more) - 2)

        for place, peer in enumerate(samples.places, first):
            if arrived[place]:
                if due.age_ticks[place] != NOT_DUE:
                    # The usual case: the sample waits for nothing, and supersedes those that wait.
                    waiting.pop(peer, None)
                    note_paired(peer, int(peer in served))
                    continue
                sample = _Waiting(due.figures[:, place].copy(), due.further[place])
                waiting[peer] = (*waiting.get(peer, ()), sample)[-MOST_WAITING:]
                if peer in served:
                    counts[peer] = min(2 * UNPAIRED_SAMPLES, counts.get(peer, 0) + 1)
            its = waiting.get(peer)
            if not its:
                continue
            turn = self._turn(its, now_s, tick_s)
            if turn is None:
                continue
            if turn.is_paired:
                note_paired(peer, 0)
            # The sample supersedes the earlier ones.
            waiting[peer] = its[turn.position + 1 :]
            if turn.age_ticks != NOT_DUE:
                due.put_in(place, its[turn.position], turn.age_ticks)
        return self._replace(
            waiting={peer: its for peer, its in waiting.items() if its and peer in samples},
            counts={peer: count for peer, count in counts.items() if peer in samples},
        )

    def _turn(self, waiting: Sequence[_Waiting], now_s: float, tick_s: float) -> "_Turn | None":
        """Return the sample whose turn it is; None: all of them go on waiting."""
        for position in range(len(waiting) - 1, -1, -1):
            window = self._window_of(waiting[position], tick_s)
            if window is not None:
                return _Turn(position, self.tick - window.tick, is_paired=True)
        patience_s = PATIENCE_PERIODS * max(tick_s, waiting[0].interval_s)
        if now_s - waiting[0].arrived_s < patience_s and self._may_come(waiting[-1], now_s):
            return None
        taken = {self.tick - window.tick for window in self.windows}
        unmet = next((age for age in range(OLDEST_TICKS + 1) if age not in taken), NOT_DUE)
        return _Turn(len(waiting) - 1, unmet, is_paired=False)

    def _window_of(self, sample: _Waiting, tick_s: float) -> _Window | None:
        """Return the known window of a sample; None: there is none yet."""
        end_s, span_s = sample.window_end_s, sample.interval_s
        for window in reversed(self.windows):
            instant_s = end_s - min(span_s, window.span_s) / 2
            if abs(instant_s - window.middle_s) <= window.within_s:
                return window
            if tick_s > window.span_s and window.at_s == sample.arrived_s:
                return window
        return None

    def _may_come(self, sample: _Waiting, now_s: float) -> bool:
        """Return whether the report of the sample's window is still to come and not overdue."""
        if not self.windows:
            return False
        last = self.windows[-1]
        instant_s = sample.window_end_s - min(sample.interval_s, last.span_s) / 2
        return instant_s > last.end_s and now_s <= self.overdue_s

    def _served(self) -> Collection[str]:
        """Return the peers with requests in the latest reports."""
        return {
            peer
            for report in self.reports
            for peer, completed, failed in zip(report.ids, report.completed, report.failed, strict=True)
            if completed or failed
        }


class _Turn(NamedTuple):
    """The place of a sample among those that wait, and its age; `NOT_DUE`: no age is without counts."""

    position: int
    age_ticks: int
    is_paired: bool


def arrived_samples(samples: Sequence[NewestSamples], *, now_s: float) -> DueSamples:
    """Return the samples that arrived at this tick, of servers that stay, as due at once."""
    columns = newest_samples.put_together(samples)
    figures = columns.figures.copy()
    arrived = (figures[newest_samples.ARRIVED_S] == now_s) & (figures[newest_samples.LEAVING] == 0)
    return DueSamples(figures=figures, further=list(columns.further), age_ticks=np.where(arrived, 0, NOT_DUE))


def due_samples(
    pairings: Sequence[WindowPairing],
    samples: Sequence[NewestSamples],
    reports: Sequence[Iterable[Received[TrafficReport]]],
    *,
    now_s: float,
    tick_s: float,
) -> tuple[list[WindowPairing], DueSamples]:
    """Return the samples of several upstreams that are due at this tick, and the pairings after it.

    Messages received at `now_s` are new. A peer without a sample is forgotten.
    """
    after = [
        pairing.after(its, now_s=now_s, tick_s=tick_s) for pairing, its in zip(pairings, reports, strict=True)
    ]
    due = arrived_samples(samples, now_s=now_s)
    arrived = due.age_ticks != NOT_DUE
    sizes = [len(each.places) for each in samples]
    due.age_ticks[:] = _ages(after, sizes, due.figures, arrived, tick_s)
    waits = np.flatnonzero(arrived & ~due.is_due)
    waiting = set(np.arange(len(sizes)).repeat(sizes)[waits].tolist())
    first = 0
    for number, (pairing, size) in enumerate(zip(after, sizes, strict=True)):
        if pairing.waiting or pairing.counts or number in waiting:
            after[number] = pairing.settle(samples[number], arrived, due, first, now_s=now_s, tick_s=tick_s)
        first += size
    return after, due


def _ages(
    pairings: Sequence[WindowPairing], sizes: Sequence[int], figures: Floats, arrived: Bools, tick_s: float
) -> Ints:
    """Return the ages of the arrived samples whose report is there, the latest report first."""
    ages = np.full(len(arrived), NOT_DUE)
    upstream_of = np.arange(len(sizes)).repeat(sizes)
    tick = np.array([each.tick for each in pairings])
    left = np.flatnonzero(arrived)
    for back in range(1, OLDEST_TICKS + 2):
        if not left.size:
            break
        windows = [each.windows[-back] if len(each.windows) >= back else _NO_WINDOW for each in pairings]
        at, its = upstream_of[left], figures[:, left]
        ticks, at_s, _, span_s, middle_s, within_s = np.array(windows, dtype=float)[at].T
        arrived_s, end_s = its[newest_samples.ARRIVED_S], its[newest_samples.WINDOW_END_S]
        instant_s = (
            np.where(np.isnan(end_s), arrived_s, end_s)
            - np.minimum(its[newest_samples.INTERVAL_S], span_s) / 2
        )
        belongs = (np.abs(instant_s - middle_s) <= within_s) | ((tick_s > span_s) & (at_s == arrived_s))
        ages[left[belongs]] = (tick[at] - ticks.astype(np.int64))[belongs]
        left = left[~belongs]
    return ages
