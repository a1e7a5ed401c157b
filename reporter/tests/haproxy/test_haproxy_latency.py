"""The mean latency of the latest requests, from HAProxy's sliding mean, within its rounding."""

from collections.abc import Sequence
from math import ceil

from hypothesis import given
from hypothesis import strategies as st
from steelyard_reporter.haproxy import latency
from steelyard_reporter.haproxy.latency import MEAN_LENGTH, Look, Truth


class SlidingMean:
    """HAProxy's `swrate_add_dynamic` and `swrate_avg` (include/haproxy/freq_ctr.h), in its whole numbers.

    `old` requests are counted, and not in the sum. A part fades by the count of a request's own thread group.
    """

    def __init__(self, groups: int = 1, old: int = 0) -> None:
        self.count = old
        self._of_group = [old] + [0] * (groups - 1)
        self._sum = 0

    def add(self, latency_ms: int, group: int = 0) -> None:
        """Take one request's."""
        self.count += 1
        self._of_group[group] += 1
        faded = 0 if self._of_group[group] <= MEAN_LENGTH else ceil(self._sum / MEAN_LENGTH)
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


def _mean_ms(looks: Sequence[Look]) -> float:
    mean = latency.mean_ms(looks, Truth())
    assert mean is not None
    return mean


def test_the_first_requests_are_a_plain_mean() -> None:
    assert abs(_mean_ms(_looks((50, 20))) - 20) <= 1


def test_a_server_that_became_slow_is_seen_by_a_few_requests_though_the_sliding_mean_has_hardly_moved() -> (
    None
):
    looks = _looks((3000, 5), (20, 200))
    assert looks[-1][1] < 15
    assert _mean_ms(looks) > 150


def test_a_server_that_recovered_is_believed_within_some_requests() -> None:
    slow = (3000, 5), (300, 200)
    assert _looks(*slow, (100, 5))[-1][1] > 60
    assert _mean_ms(_looks(*slow, *[(25, 5)] * 4)) < 15
    assert _mean_ms(_looks(*slow, *[(100, 5)] * 8)) < 7


def test_the_rounding_is_not_followed() -> None:
    # One request of a second moves the mean over a rounding, and one of 5 ms would not.
    for told in range(1, 9):
        looks = [(10_000, 5), *((10_000 + 3 * i, 5 + i % 2) for i in range(1, told))]
        assert 4 <= _mean_ms(looks) <= 6


def test_without_any_request_there_is_nothing_to_divide_by() -> None:
    assert _mean_ms([(0, 0)]) == 0.0
    assert _mean_ms([(600, 7), (600, 7)]) == 6.5


def _reported(mean: SlidingMean, truth: Truth, *, requests: int, shares: Sequence[int]) -> list[float | None]:
    """Return what is reported after each 32 requests of 12 ms; the groups take turns by their shares."""
    turns = [group for group, share in enumerate(shares) for _ in range(share)]
    looks: tuple[Look, ...] = (mean.look,)
    reported = []
    for first in range(0, requests, 32):
        for request in range(first, first + 32):
            mean.add(12, turns[request % len(turns)])
        looks = (*looks, mean.look)
        reported.append(latency.mean_ms(looks, truth))
        looks = latency.kept(looks)
    return reported


def test_thread_groups_make_no_latency_until_it_is_true() -> None:
    # HAProxy 3.5-dev5 with 4 groups: 48 ms at 2,048 requests of 12 ms, and still 26 ms at 2,700.
    mean = SlidingMean(groups=4)
    reported = _reported(mean, latency.truth(0, 4, began_at_0=True), requests=16_384, shares=[1, 1, 1, 1])
    assert all(each is not None and abs(each - 12) < 1 for each in reported[:15])
    assert reported[16:480] == [None] * 464
    assert reported[-1] is not None
    assert abs(reported[-1] - 12) < 1.5


def test_a_thread_group_with_few_requests_makes_a_latency_at_most_a_ninth_too_large() -> None:
    for shares in ([29, 1, 1, 1], [95, 5], [3, 1]):
        truth = latency.truth(0, len(shares), began_at_0=True)
        reported = _reported(SlidingMean(len(shares)), truth, requests=20_480, shares=shares)
        assert all(11 < each < 12 * 10 / 9 + 1.5 for each in reported if each is not None)
        assert reported[-1] is not None


def test_counts_without_a_sum_make_no_latency_until_their_part_is_small() -> None:
    # HAProxy 3.5-dev5 after a reload with `stats-file`: 1 ms after 216 requests, of which 5 took 12 ms.
    for old in (3, 211, 26_000):
        truth = latency.truth(old, 1, began_at_0=False)
        reported = _reported(SlidingMean(old=old), truth, requests=640, shares=[1])
        assert (reported[0] is None) == (old > 32)
        assert all(abs(each - 12) < 2.5 for each in reported if each is not None)
        assert reported[11] is not None


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
        assert abs(_mean_ms(looks[first:]) - slow_ms) <= error + 1 + 1 / (1 - rest)


@given(counts=st.lists(st.integers(0, 200), min_size=1, max_size=200))
def test_few_looks_are_kept_and_the_newest_is_one_of_them(counts: list[int]) -> None:
    looks: tuple[Look, ...] = ((0, 0),)
    for count in counts:
        looks = latency.kept((*looks, (looks[-1][0] + count, 7)))
        assert len(looks) <= latency.MOST_LOOKS
    assert looks[-1][0] == sum(counts)
