"""Samples meet the report of their own window, for all lengths, phases and clocks."""

from dataclasses import dataclass, field
from math import inf

from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.messages.inbox import Inbox, receive
from steelyard_controller.messages.newest_samples import SEQ, NewestSamples
from steelyard_controller.messages.received import ReadContext
from steelyard_controller.tick.window_pairing import UNPAIRED_SAMPLES, WindowPairing, due_samples

from ..examples import report, sample

UNIX_S = 1_800_000_000
PHASES = st.integers(0, 99).map(lambda percent: percent / 100)


@dataclass
class Cluster:
    """One server and one load balancer, read once a tick; times are the receiver's."""

    tick_s: float
    sample_phase: float = 0.0
    report_phase: float = 0.0
    sample_s: float = 1.0
    report_s: float = 1.0
    sample_clock_s: float = 0.0
    report_clock_s: float = 0.0
    lost_reports: frozenset[int] = frozenset()
    requests: int = 10
    pairs: list[tuple[float, float]] = field(default_factory=list)
    """The ends of the paired windows: a sample's and a report's."""
    handed: list[int] = field(default_factory=list)
    """The numbers of all samples that were due."""
    faults: list[list[str]] = field(default_factory=list)
    left: list[str] | None = None
    """The names in the fault after the server has left."""

    def run(self, seconds: float) -> "Cluster":
        """Tick for these seconds."""
        inbox, pairing, reports_at = Inbox(), WindowPairing(), {}
        seen = self._newest(100 + self.tick_s, self.report_phase, self.report_s)
        for tick in range(1, int(seconds / self.tick_s) + 1):
            now_s = 100 + tick * self.tick_s
            s = self._newest(now_s, self.sample_phase, self.sample_s)
            r = self._newest(now_s, self.report_phase, self.report_s)
            while r in self.lost_reports:
                r -= 1
            inbox = receive(
                inbox,
                ReadContext(
                    "web",
                    now_s if tick > 1 else 100.0,  # As in the cycle, nothing is new at a start.
                    last_read_s=now_s - self.tick_s if tick > 1 else -inf,
                    synchronized_s=float(-UNIX_S),
                ),
                samples={"a": self._sample(s)},
                reports={"edge-1": self._report(r)},
            )
            if r != seen:
                seen, reports_at[tick] = r, self._end(r, self.report_phase, self.report_s)
            (pairing,), due = due_samples(
                [pairing], [inbox.samples], [inbox.reports.values()], now_s=now_s, tick_s=self.tick_s
            )
            for age_ticks in due.age_ticks[due.is_due].tolist():
                number = int(due.figures[SEQ, 0])
                self.handed.append(number)
                if tick - age_ticks in reports_at:
                    ended_s = self._end(number, self.sample_phase, self.sample_s)
                    self.pairs.append((ended_s, reports_at[tick - age_ticks]))
            self.faults.append(pairing.unpaired)
        none = NewestSamples.none({})
        (pairing,), _ = due_samples([pairing], [none], [()], now_s=100 + seconds, tick_s=self.tick_s)
        self.left = pairing.unpaired
        return self

    def shared(self) -> list[float]:
        """Return the overlap of each pair's windows, as a share of the shorter one."""
        return [
            (min(s, r) - max(s - self.sample_s, r - self.report_s)) / min(self.sample_s, self.report_s)
            for s, r in self.pairs
        ]

    def _newest(self, now_s: float, phase: float, length_s: float) -> int:
        return int((now_s - phase * length_s) / length_s + 1e-9)

    def _end(self, number: int, phase: float, length_s: float) -> float:
        return (number + phase) * length_s

    def _sample(self, number: int) -> bytes:
        end_s = self._end(number, self.sample_phase, self.sample_s) + self.sample_clock_s + UNIX_S
        return sample("a", seq=number, taken_at_ms=round(end_s * 1000), interval_s=self.sample_s)

    def _report(self, number: int) -> bytes:
        end_s = self._end(number, self.report_phase, self.report_s) + self.report_clock_s + UNIX_S
        row = (self.requests, 0, 0, 4.0)
        return report(seq=number, sent_at_ms=round(end_s * 1000), interval_s=self.report_s, a=row)


@given(st.sampled_from([0.25, 0.5, 1.0]), PHASES, PHASES)
def test_windows_share_at_least_half_at_every_phase(tick_s: float, samples: float, reports: float) -> None:
    cluster = Cluster(tick_s, samples, reports).run(16)
    assert len(cluster.pairs) >= 12
    assert min(cluster.shared()) >= 0.5 - 0.06
    assert cluster.faults[-1] == []


@given(PHASES, PHASES)
def test_a_tick_of_two_seconds_that_sees_every_other_window_pairs_at_each(
    samples: float, reports: float
) -> None:
    cluster = Cluster(2.0, samples, reports).run(30)
    assert len(cluster.pairs) >= 12
    assert min(cluster.shared()) > 0
    assert cluster.faults[-1] == []


@given(
    st.sampled_from([0.5, 1.0, 2.0]),
    PHASES,
    PHASES,
    st.floats(-1e4, 1e4).map(lambda s: round(s, 3)),
    st.floats(-1e4, 1e4).map(lambda s: round(s, 3)),
)
def test_wrong_clocks_cost_no_pairs_and_never_more_than_a_ticks_shift(
    tick_s: float, samples: float, reports: float, one_s: float, other_s: float
) -> None:
    cluster = Cluster(tick_s, samples, reports, sample_clock_s=one_s, report_clock_s=other_s).run(24)
    assert len(cluster.pairs) >= 14 / max(1.0, tick_s)
    assert max(abs(s - r) for s, r in cluster.pairs) <= max(1.0, tick_s) + 0.5 + 0.1
    assert cluster.faults[-1] == []


@given(st.sampled_from([0.5, 1.0]), PHASES, PHASES, st.sampled_from([(0.5, 1.0), (2.0, 1.0), (1.0, 2.0)]))
def test_windows_of_two_lengths_share_half_of_the_shorter(
    tick_s: float, samples: float, reports: float, lengths: tuple[float, float]
) -> None:
    sample_s, report_s = lengths
    cluster = Cluster(tick_s, samples, reports, sample_s, report_s).run(24)
    assert len(cluster.pairs) >= 7
    assert min(cluster.shared()) >= 0.5 - 0.12


@given(st.sampled_from([0.5, 1.0, 2.0]), PHASES, PHASES, st.frozensets(st.integers(100, 124)))
def test_no_sample_is_handed_over_twice_or_out_of_order(
    tick_s: float, samples: float, reports: float, lost: frozenset[int]
) -> None:
    handed = Cluster(tick_s, samples, reports, lost_reports=lost).run(24).handed
    assert handed == sorted(set(handed))


def test_in_phase_nothing_waits() -> None:
    cluster = Cluster(1.0, 0.9, 0.92).run(20)
    assert cluster.handed == list(range(cluster.handed[0], cluster.handed[0] + 19))
    assert len(cluster.pairs) == 19


def test_without_any_report_samples_are_handed_over_at_once_and_it_is_no_fault() -> None:
    cluster = Cluster(1.0, 0.9, 0.9, lost_reports=frozenset(range(90, 200)), requests=0).run(30)
    assert len(cluster.handed) == 29
    assert cluster.faults[-1] == []


def test_where_reports_are_much_longer_than_samples_the_fault_names_the_server_and_ends() -> None:
    cluster = Cluster(0.1, 0.0, 0.05, sample_s=0.1, report_s=2.0).run(30)
    assert ["a"] in cluster.faults
    without_requests = Cluster(0.1, 0.0, 0.05, sample_s=0.1, report_s=2.0, requests=0).run(30)
    assert all(faults == [] for faults in without_requests.faults)
    assert UNPAIRED_SAMPLES == 10


def test_a_server_that_has_left_is_in_no_fault() -> None:
    runs = (Cluster(0.1, 0.0, 0.05, sample_s=0.1, report_s=2.0).run(seconds) for seconds in range(2, 30))
    named = next(run for run in runs if run.faults[-1])
    assert (named.faults[-1], named.left) == (["a"], [])
