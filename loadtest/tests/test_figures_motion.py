"""When shares have settled, and how much they swing."""

import math
import random

import pytest
from steelyard_loadtest.figures import motion
from steelyard_loadtest.figures.motion import Stretch
from steelyard_loadtest.measurements.trials import Observed
from steelyard_loadtest.scenario.definition import Event

MINUTE = Stretch(began_s=0, ended_s=60)


def course(*served: tuple[int, ...]) -> list[Observed]:
    """The answers of servers a, b, ..., second by second."""
    return [
        Observed(t_s=second + 1.0, interval_s=1, server=name, served=count, share=None, cpu_utilization=0)
        for second, counts in enumerate(served)
        for name, count in zip("abcdefgh", counts, strict=False)
    ]


def drawn(rate: int, seconds: int, parts: tuple[float, ...], seed: int) -> list[Observed]:
    """Each request by lot: no share moves but by chance."""
    lots = random.Random(seed)
    picks = [lots.choices(range(len(parts)), parts, k=rate) for _ in range(seconds)]
    return course(*(tuple(pick.count(server) for server in range(len(parts))) for pick in picks))


def test_shares_that_are_right_from_the_start_settle_at_once() -> None:
    assert motion.settle_s(course(*[(70, 30)] * 60), MINUTE) == 0


def test_a_step_settles_when_its_smoothed_share_is_near() -> None:
    settled_s = motion.settle_s(course(*[(500, 500)] * 20, *[(900, 100)] * 40), MINUTE)
    assert settled_s == 22  # two seconds of smoothing after the last old one


def test_shares_that_step_in_the_last_third_never_settle() -> None:
    assert motion.settle_s(course(*[(900, 100)] * 45, *[(100, 900)] * 15), MINUTE) == math.inf


def test_time_counts_from_the_stretchs_begin() -> None:
    entries = course(*[(100, 900)] * 30, *[(500, 500)] * 10, *[(900, 100)] * 50)
    assert motion.settle_s(entries, Stretch(began_s=30, ended_s=90)) == 12


def test_nothing_answered_or_too_short_a_time_has_no_answer() -> None:
    assert motion.settle_s(course(*[(0, 0)] * 60), MINUTE) is None
    assert motion.settle_s([], MINUTE) is None
    assert motion.settle_s(course((5, 5), (5, 5)), Stretch(began_s=0, ended_s=2)) is None


def test_a_server_that_fades_out_counts_though_it_has_no_final_share() -> None:
    entries = course(*[(500, 500)] * 10, *[(1000, 0)] * 50)
    assert motion.settle_s(entries, MINUTE) == 12


@pytest.mark.parametrize("rate", [10, 100, 1000])
def test_chance_alone_is_settled_at_any_rate(rate: int) -> None:
    for seed in range(10):
        entries = drawn(rate, 60, (0.5, 0.3, 0.2), seed)
        assert motion.settle_s(entries, MINUTE) == 0


def test_what_lasts_is_a_change_at_both_ends_and_the_server_stays_in_use() -> None:
    held = [Event(at_s=10, do="hold", server="a", for_s=5)]
    assert motion.moments_s(held) == [10, 15]
    assert motion.takes_part(held, "a", 12)
    assert motion.takes_part(held, "a", 20)
