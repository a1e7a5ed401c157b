"""The mean latency of the latest requests, from HAProxy's sliding mean, within its rounding."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st
from steelyard_reporter.haproxy import latency
from steelyard_reporter.haproxy.latency import MEAN_LENGTH, Look


class SlidingMean:
    """HAProxy's `swrate_add_dynamic` and `swrate_avg` (include/haproxy/freq_ctr.h), in its whole numbers."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0

    def add(self, latency_ms: int) -> None:
        """Take one request's."""
        self.count += 1
        faded = 0 if self.count <= MEAN_LENGTH else ceil(self._sum / MEAN_LENGTH)
        self._sum += latency_ms - faded

    @property
    def look(self) -> Look:
        """Return a look as `show stat` reports it."""
        return self.count, ceil(self._sum / min(self.count, MEAN_LENGTH)) if self.count else 0


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
    assert abs(latency.mean_ms(_looks((50, 20))) - 20) <= 1


def test_a_server_that_became_slow_is_seen_by_a_few_requests_though_the_sliding_mean_has_hardly_moved() -> (
    None
):
    looks = _looks((3000, 5), (20, 200))
    assert looks[-1][1] < 15
    assert latency.mean_ms(looks) > 150


def test_a_server_that_recovered_is_believed_within_some_requests() -> None:
    slow = (3000, 5), (300, 200)
    assert _looks(*slow, (100, 5))[-1][1] > 60
    assert latency.mean_ms(_looks(*slow, *[(25, 5)] * 4)) < 15
    assert latency.mean_ms(_looks(*slow, *[(100, 5)] * 8)) < 7


def test_the_rounding_is_not_followed() -> None:
    # One request of a second moves the mean over a rounding, and one of 5 ms would not.
    for told in range(1, 9):
        looks = [(10_000, 5), *((10_000 + 3 * i, 5 + i % 2) for i in range(1, told))]
        assert 4 <= latency.mean_ms(looks) <= 6


def test_without_any_request_there_is_nothing_to_divide_by() -> None:
    assert latency.mean_ms([(0, 0)]) == 0.0
    assert latency.mean_ms([(600, 7), (600, 7)]) == 6.5


@given(
    before=st.integers(0, 3000),
    slow_ms=st.integers(0, 500),
    phases=st.lists(st.integers(1, 900), min_size=1, max_size=6),
)
def test_the_mean_is_within_the_error_that_the_rounding_leaves(
    before: int, slow_ms: int, phases: list[int]
) -> None:
    looks = _looks((before, 10), *((requests, slow_ms) for requests in phases))
    for first in range(1, len(looks) - 1):  # all requests since then took the same
        rest = latency.left(looks[first][0], looks[-1][0])
        error = (1 + rest) / (1 - rest)
        # HAProxy rounds each request's fading up too: up to a millisecond more, over each span.
        assert abs(latency.mean_ms(looks[first:]) - slow_ms) <= error + 1 + 1 / (1 - rest)


@given(counts=st.lists(st.integers(0, 200), min_size=1, max_size=200))
def test_few_looks_are_kept_and_the_newest_is_one_of_them(counts: list[int]) -> None:
    looks: tuple[Look, ...] = ((0, 0),)
    for count in counts:
        looks = latency.kept((*looks, (looks[-1][0] + count, 7)))
        assert len(looks) <= latency.MOST_LOOKS
    assert looks[-1][0] == sum(counts)
