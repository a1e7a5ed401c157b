"""Fair shares, how far shares are from them, and how soon a server has its share back."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.figures.fair_share import fair_shares, recovery_s, share_error
from steelyard_loadtest.measurements.trials import Observed
from steelyard_loadtest.scenario.definition import Drift, Event, Server

EQUAL = (Server(name="a", cpu_cores=0.2), Server(name="b", cpu_cores=0.2), Server(name="c", cpu_cores=0.2))
BURN = Event(at_s=10, do="burn", server="a", for_s=10, workers=3)


def course(*shares: tuple[float, float, float]) -> list[Observed]:
    """The answers of a, b and c to 300 requests, second by second."""
    return [
        Observed(
            t_s=second + 1.0,
            interval_s=1.0,
            server=name,
            served=round(300 * share),
            share=share,
            cpu_utilization=0.5,
        )
        for second, parts in enumerate(shares)
        for name, share in zip("abc", parts, strict=True)
    ]


THIRDS = (1 / 3, 1 / 3, 1 / 3)
STARVED = (0.0, 0.5, 0.5)
NINTH = (1 / 9, 4 / 9, 4 / 9)


def test_a_burnt_server_is_left_its_part_of_its_limit_for_so_long() -> None:
    assert fair_shares(EQUAL, [BURN], 9.9) == pytest.approx(dict(zip("abc", THIRDS, strict=True)))
    assert fair_shares(EQUAL, [BURN], 10.0) == pytest.approx(dict(zip("abc", NINTH, strict=True)))
    assert fair_shares(EQUAL, [BURN], 20.0) == pytest.approx(dict(zip("abc", THIRDS, strict=True)))


def test_a_neighbour_with_a_bound_leaves_the_rest() -> None:
    bounded = replace(BURN, part=0.4)
    assert fair_shares(EQUAL, [bounded], 15) == pytest.approx({"a": 0.6 / 2.6, "b": 1 / 2.6, "c": 1 / 2.6})


def test_a_server_that_left_has_no_share() -> None:
    leave = Event(at_s=5, do="leave", server="c")
    assert fair_shares(EQUAL, [leave], 6) == pytest.approx({"a": 0.5, "b": 0.5, "c": 0})


@pytest.mark.parametrize(
    "odd",
    [
        Server(name="d"),
        Server(name="d", cpu_cores=0.2, delay_ms=5),
        Server(name="d", cpu_cores=0.2, disk_ops_per_s=9),
        Server(name="d", cpu_cores=0.2, workers=8),
    ],
)
def test_where_cpu_is_not_what_servers_are_short_of_nothing_is_fair(odd: Server) -> None:
    assert fair_shares((*EQUAL, odd), [], 0) == {}
    assert share_error(course(THIRDS), (*EQUAL, odd), []) is None
    assert recovery_s(course(*[THIRDS] * 30), (*EQUAL, odd), [BURN], 30) is None


@given(st.floats(0, 100), st.floats(0.01, 0.5), st.floats(0, 0.99))
def test_fair_shares_are_a_whole(t_s: float, by: float, phase: float) -> None:
    drifting = Server(name="d", cpu_cores=0.2, drift=Drift(by=by, period_s=20, phase=phase))
    assert sum(fair_shares((*EQUAL, drifting), [BURN], t_s).values()) == pytest.approx(1)


def test_the_share_error_is_the_part_that_went_elsewhere() -> None:
    assert share_error(course(THIRDS, STARVED), EQUAL, []) == pytest.approx((0 + 1 / 3) / 2)
    assert share_error([], EQUAL, []) is None


def test_a_share_that_follows_a_limit_that_drifts_is_right() -> None:
    drifting = (Server(name="a", cpu_cores=0.2, drift=Drift(by=0.5, period_s=4)), *EQUAL[1:])
    shares = [fair_shares(drifting, [], t_s + 0.5) for t_s in range(8)]
    following = course(*((one["a"], one["b"], one["c"]) for one in shares))
    assert share_error(following, drifting, []) == pytest.approx(0)
    assert (share_error(course(*[THIRDS] * 8), drifting, []) or 0) > 0.05


def test_a_server_has_recovered_when_its_smoothed_share_is_four_fifths_of_the_fair_one() -> None:
    late = course(*[THIRDS] * 10, *[NINTH] * 10, *[STARVED] * 4, *[THIRDS] * 6)
    assert recovery_s(late, EQUAL, [BURN], 30) == 6  # the second of two good seconds
    at_once = course(*[THIRDS] * 10, *[NINTH] * 10, *[THIRDS] * 10)
    assert recovery_s(at_once, EQUAL, [BURN], 30) == 1  # observations are a second apart


def test_a_server_may_never_recover_and_without_trouble_there_is_no_recovery() -> None:
    starved = course(*[THIRDS] * 10, *[STARVED] * 20)
    assert recovery_s(starved, EQUAL, [BURN], 30) == math.inf
    for trouble in ("fail", "slow"):
        assert recovery_s(starved, EQUAL, [replace(BURN, do=trouble)], 30) == math.inf
    assert recovery_s(starved, EQUAL, [], 30) is None
    assert recovery_s(starved, EQUAL, [BURN], 20) is None  # the load ended with it
