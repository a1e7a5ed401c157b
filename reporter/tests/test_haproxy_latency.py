"""The mean latency of the latest requests is found in HAProxy's sliding mean, within its rounding."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st
from steelyard_reporter.haproxy import latency
from steelyard_reporter.haproxy.latency import SAMPLES, Look


class SlidingMean:
    """HAProxy's `swrate_add_dynamic` and `swrate_avg` (include/haproxy/freq_ctr.h), in its whole numbers."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0

    def add(self, latency_ms: int) -> None:
        """Take one request's."""
        self.count += 1
        faded = 0 if self.count <= SAMPLES else ceil(self._sum / SAMPLES)
        self._sum += latency_ms - faded

    @property
    def look(self) -> Look:
        """Return what `show stat` tells."""
        return self.count, ceil(self._sum / min(self.count, SAMPLES)) if self.count else 0


def _looks(*phases: tuple[int, int]) -> list[Look]:
    """Return a look at the beginning and one after each phase of (requests, their latency)."""
    mean = SlidingMean()
    looks = [mean.look]
    for requests, latency_ms in phases:
        for _ in range(requests):
            mean.add(latency_ms)
        looks.append(mean.look)
    return looks


def test_the_first_requests_are_a_plain_mean() -> None:
    mean_ms, since = latency.mean_ms(_looks((50, 20)))
    assert abs(mean_ms - 20) <= 1
    assert since == 0


def test_a_server_that_became_slow_is_seen_in_one_window_of_many_requests() -> None:
    mean_ms, since = latency.mean_ms(_looks((5000, 10), (1000, 80)))
    assert abs(mean_ms - 80) <= 8
    assert since == 1


def test_few_requests_in_a_long_mean_are_waited_for() -> None:
    looks = _looks((5000, 10), (3, 80))
    mean_ms, since = latency.mean_ms(looks)
    # Of three requests the rounding leaves nothing to see: the mean is over more than the last window.
    assert since == 0
    assert 10 <= mean_ms < 80


def test_without_any_request_there_is_nothing_to_divide_by() -> None:
    assert latency.mean_ms([(0, 0)]) == (0.0, 0)
    assert latency.mean_ms([(600, 7), (600, 7)])[1] == 0


@given(
    before=st.integers(0, 3000),
    slow_ms=st.integers(0, 500),
    phases=st.lists(st.integers(1, 900), min_size=1, max_size=6),
)
def test_the_rounding_costs_a_millisecond_or_a_tenth_of_the_mean(
    before: int, slow_ms: int, phases: list[int]
) -> None:
    looks = _looks((before, 10), *((requests, slow_ms) for requests in phases))
    mean_ms, since = latency.mean_ms(looks)
    if since >= 1:  # all requests since then took the same
        # HAProxy rounds each request's fading up, too: up to one millisecond more.
        assert abs(mean_ms - slow_ms) <= max(latency.ALLOWED_MS, latency.ALLOWED_PART * looks[-1][1]) + 1
