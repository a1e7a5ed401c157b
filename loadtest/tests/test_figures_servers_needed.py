"""The highest load within one p99, and the servers that it means."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.figures.servers_needed import Carried, Need, highest_load, needs
from steelyard_loadtest.figures.trial_figures import Summary, figures, summarize
from steelyard_loadtest.measurements.trials import Measured, Outcome, Quantile, Trial
from steelyard_loadtest.scenario.definition import Fleet

FLEET = Fleet(utilization_ratio=1.05, level=0.6, reference="nginx-rr", p99_times=4)


def summaries(
    p99s: Mapping[str, Mapping[float, float]], failed: tuple[str, float] = ("", 0)
) -> list[Summary]:
    """One trial for each p99; in the one of `failed`, two of a thousand requests fail."""
    return summarize(
        figures(
            Measured(
                trial=Trial(scenario="s", algorithm=name, level=level, repeat=1),
                generator="open",
                outcome=Outcome(
                    seconds=10, requests=1000, failures=2 if (name, level) == failed else 0, kinds={},
                    mean_ms=1, min_ms=1, max_ms=1, quantiles=(Quantile(part=0.99, ms=ms),), concurrency=1,
                ),
            ),
            [],
        )
        for name, levels in p99s.items()
        for level, ms in levels.items()
    )  # fmt: skip


def level_of(carried: Carried | None) -> float:
    """Return a load that is known itself, not only a lower bound of it."""
    assert carried is not None
    assert not carried.at_least
    return carried.level


def test_between_two_levels_the_logarithm_of_p99_is_linear() -> None:
    # 10 to 1000 ms over 0.2: the bound of 100 is half of the way.
    assert level_of(highest_load({0.4: 10, 0.6: 1000}, 100)) == pytest.approx(0.5)
    assert level_of(highest_load({0.6: 1000, 0.4: 100}, 100)) == pytest.approx(0.4)


def test_the_load_ends_where_p99_first_leaves_the_bound() -> None:
    assert level_of(highest_load({0.2: 10, 0.4: 1000, 0.6: 50}, 100)) == pytest.approx(0.3)


def test_a_load_that_is_not_bounded_from_above_is_a_lower_bound() -> None:
    assert highest_load({0.2: 10, 0.4: 20}, 100) == Carried(level=0.4, at_least=True)
    assert highest_load({0.2: 10, 0.4: None, 0.6: 20}, 100) == Carried(level=0.2, at_least=True)


def test_no_load_is_within_the_bound_if_the_lowest_is_not() -> None:
    assert highest_load({0.2: 101, 0.4: 20}, 100) is None
    assert highest_load({0.2: None}, 100) is None
    assert highest_load({}, 100) is None


@given(st.lists(st.floats(1, 1e4), min_size=2, max_size=6), st.floats(1, 1e4))
def test_a_load_is_between_the_last_level_within_and_the_next(p99s_ms: list[float], bound_ms: float) -> None:
    carried = highest_load(dict(enumerate(p99s_ms, 1)), bound_ms)
    within = next((place for place, ms in enumerate(p99s_ms) if ms > bound_ms), len(p99s_ms))
    if carried is None:
        assert within == 0
    else:
        assert within <= carried.level <= min(within + 1, len(p99s_ms)) + 1e-9
        assert math.isfinite(carried.level)


def test_twice_the_load_needs_half_the_servers() -> None:
    measured = summaries(
        {
            "nginx-rr": {0.2: 10, 0.4: 1000},  # 40 ms is ln(4)/ln(100) of the way
            "nginx-least_conn": {0.2: 10, 0.4: 20, 0.6: 30},
            "steelyard-steelyard-vnswrr2": {0.2: 8, 0.4: 10, 0.6: 1000},
        }
    )
    known = needs(measured, FLEET, 12)
    assert known is not None
    assert (known.unloaded_ms, known.bound_ms) == (10, 40)
    part = math.log(4) / math.log(100)
    load = 0.2 + 0.2 * part
    first, second, last = known.each
    assert (first.algorithm, first.carried) == ("nginx-least_conn", Carried(level=0.6, at_least=True))
    assert (second.algorithm, second.bound) == ("steelyard-steelyard-vnswrr2", "")
    assert (last.algorithm, last.bound, first.bound) == ("nginx-rr", "", "≤ ")
    servers = [need.servers for need in known.each]
    assert servers == pytest.approx([12 * load / 0.6, 12 * load / (0.4 + 0.2 * part), 12])


def test_a_level_at_which_requests_fail_is_beyond_the_bound() -> None:
    measured = summaries(
        {"nginx-rr": {0.2: 10, 0.4: 11}, "nginx-hash": {0.2: 9, 0.4: 9}}, ("nginx-hash", 0.4)
    )
    known = needs(measured, FLEET, 12)
    assert known is not None
    own = known.of("nginx-hash")
    assert own is not None
    assert own.carried == Carried(level=0.2, at_least=True)
    assert own.servers is None  # both are lower bounds


def test_two_lower_bounds_have_no_ratio_even_at_one_level() -> None:
    known = needs(summaries({"nginx-rr": {0.2: 10, 0.4: 11}, "nginx-hash": {0.2: 9, 0.4: 9}}), FLEET, 12)
    assert known is not None
    assert {need.algorithm: need.servers for need in known.each} == {"nginx-rr": 12, "nginx-hash": None}


def test_an_algorithm_over_the_bound_at_the_lowest_level_has_no_number() -> None:
    known = needs(summaries({"nginx-rr": {0.2: 10, 0.4: 99}, "nginx-hash": {0.2: 41}}), FLEET, 12)
    assert known is not None
    assert known.each[-1] == Need(algorithm="nginx-hash", carried=None, servers=None)


def test_without_the_reference_or_the_question_there_is_no_answer() -> None:
    assert needs(summaries({"nginx-hash": {0.2: 10}}), FLEET, 12) is None
    assert needs(summaries({"nginx-hash": {0.2: 10}, "nginx-rr": {0.4: 10}}), FLEET, 12) is None
    assert needs(summaries({"nginx-rr": {0.2: 10}}), None, 12) is None
    assert needs([], FLEET, 12) is None
