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
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.traffic_report import TrafficReport

from steelyard_controller.laws.pairing import OLDEST_TICKS
from steelyard_controller.messages.inbox import Received

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

Sample = Received[SampleRecord]


class DueSample(NamedTuple):
    """A sample for the laws at this tick; its counts are those of `age_ticks` ago."""

    sample: Sample
    age_ticks: int


@dataclass(frozen=True, slots=True)
class _Window:
    tick: int
    at_s: float
    end_s: float
    span_s: float
    middle_s: float
    within_s: float


class WindowPairing:
    """The samples of one upstream that wait for their report, and the windows of the latest reports."""

    def __init__(self) -> None:
        self._tick = 0
        self._windows: deque[_Window] = deque()
        self._overdue_s = 0.0
        self._served: Collection[str] = ()
        self._waiting: dict[str, deque[Sample]] = {}
        self._unpaired: dict[str, int] = {}

    @property
    def unpaired(self) -> list[str]:
        """Return the peers most of whose samples find no report, though they have requests."""
        return sorted(peer for peer, count in self._unpaired.items() if count >= UNPAIRED_SAMPLES)

    def due(
        self,
        samples: Mapping[str, Sample],
        reports: Iterable[Received[TrafficReport]],
        *,
        now_s: float,
        tick_s: float,
    ) -> dict[str, DueSample]:
        """Return the samples that are due at this tick, by peer; call it once a tick.

        Messages received at `now_s` are new. A peer that is missing from `samples` is forgotten.
        """
        self._tick += 1
        self._take_reports([each for each in reports if each.arrived_s == now_s], now_s, tick_s)
        served = self._served if now_s <= self._overdue_s else ()
        due_now = {}
        for peer, sample in samples.items():
            if sample.arrived_s == now_s and not sample.message.leaving:
                window = self._window_of(sample, tick_s)
                if window is not None:
                    # The usual case: the sample waits for nothing, and supersedes those that wait.
                    self._waiting.pop(peer, None)
                    self._note_paired(peer, int(peer in served))
                    due_now[peer] = DueSample(sample, self._tick - window.tick)
                    continue
                self._waiting.setdefault(peer, deque(maxlen=MOST_WAITING)).append(sample)
                if peer in served:
                    self._unpaired[peer] = min(2 * UNPAIRED_SAMPLES, self._unpaired.get(peer, 0) + 1)
            waiting = self._waiting.get(peer)
            if waiting:
                due = self._first_due(peer, waiting, now_s, tick_s)
                if due is not None:
                    due_now[peer] = due
        self._forget(samples.keys())
        return due_now

    def _take_reports(self, new: list[Received[TrafficReport]], now_s: float, tick_s: float) -> None:
        """Note the window of the new reports, and the peers with requests in it."""
        while self._windows and self._windows[0].tick < self._tick - OLDEST_TICKS:
            self._windows.popleft()
        if not new:
            return
        weighed = [(1 + sum(each.message.completed), each) for each in new]
        total = sum(weight for weight, _ in weighed)
        end_s = sum(weight * each.window_end_s for weight, each in weighed) / total
        span_s = sum(weight * each.message.interval_s for weight, each in weighed) / total
        within_s = (0.5 + TOLERANCE_WINDOWS) * span_s
        self._windows.append(_Window(self._tick, now_s, end_s, span_s, end_s - span_s / 2, within_s))
        self._overdue_s = now_s + span_s + tick_s / 2
        self._served = {
            peer
            for each in new
            for peer, completed, failed in zip(
                each.message.ids, each.message.completed, each.message.failed, strict=True
            )
            if completed or failed
        }

    def _first_due(self, peer: str, waiting: deque[Sample], now_s: float, tick_s: float) -> DueSample | None:
        for position in range(len(waiting) - 1, -1, -1):
            window = self._window_of(waiting[position], tick_s)
            if window is not None:
                self._note_paired(peer, 0)
                return DueSample(_taken(waiting, position), self._tick - window.tick)
        patience_s = PATIENCE_PERIODS * max(tick_s, waiting[0].message.interval_s)
        if now_s - waiting[0].arrived_s < patience_s and self._may_come(waiting[-1], now_s):
            return None
        taken = {self._tick - window.tick for window in self._windows}
        unmet = next((age for age in range(OLDEST_TICKS + 1) if age not in taken), None)
        if unmet is None:
            waiting.clear()
            return None
        return DueSample(_taken(waiting, len(waiting) - 1), unmet)

    def _note_paired(self, peer: str, more: int) -> None:
        if peer in self._unpaired:
            self._unpaired[peer] = max(0, min(2 * UNPAIRED_SAMPLES, self._unpaired[peer] + more) - 2)

    def _window_of(self, sample: Sample, tick_s: float) -> _Window | None:
        """Return the known window of a sample; None: there is none yet."""
        end_s, span_s = sample.window_end_s, sample.message.interval_s
        for window in reversed(self._windows):
            instant_s = end_s - min(span_s, window.span_s) / 2
            if abs(instant_s - window.middle_s) <= window.within_s:
                return window
            if tick_s > window.span_s and window.at_s == sample.arrived_s:
                return window
        return None

    def _may_come(self, sample: Sample, now_s: float) -> bool:
        """Return whether the report of the sample's window is still to come and not overdue."""
        if not self._windows:
            return False
        last = self._windows[-1]
        instant_s = sample.window_end_s - min(sample.message.interval_s, last.span_s) / 2
        return instant_s > last.end_s and now_s <= self._overdue_s

    def _forget(self, peers: Collection[str]) -> None:
        for by_peer in (self._waiting, self._unpaired):
            for peer in by_peer.keys() - peers:
                del by_peer[peer]


def _taken(waiting: deque[Sample], position: int) -> Sample:
    """Take out a sample and the earlier ones, which it supersedes."""
    for _ in range(position):
        waiting.popleft()
    return waiting.popleft()
