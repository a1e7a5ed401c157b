"""Each kind of comparison, on figures that show what a source found and on figures that do not."""

import math

import pytest
from steelyard_loadtest.compare.findings.checks import Entry, Terms, check
from steelyard_loadtest.compare.findings.finding import Check, Finding, Grade, rule, verdict
from steelyard_loadtest.compare.findings.grades import (
    beaten,
    effect,
    half,
    number,
    over_best,
)
from steelyard_loadtest.compare.findings.measured_figures import (
    Evidence,
    LackingError,
    OneOf,
    Spot,
)

LEVELS = (200.0, 600.0, 1000.0, 1400.0, 2000.0)
TERMS = Terms(scenario="report", algorithms={"A": "a", "B": "b", "C": "c"})
CURVES = Terms(scenario="paper", algorithms={"wrr": "a", "fair": "b", "dynlb": "c"})


def at_level(kind: str, terms: Terms = TERMS, metric: str = "mean_ms", **told: object) -> Check:
    return check({"kind": kind, "metric": metric, "at": 250, **told}, terms)


def along(kind: str, **told: object) -> Check:
    entry: Entry = {"kind": kind, "metric": "mean_ms", "of": ["wrr", "fair", "dynlb"], "theirs": "", **told}
    return check(entry, CURVES)


def at_250(**values: float) -> Evidence:
    return Evidence({("report", name, 250.0): {"mean_ms": value} for name, value in values.items()})


def curves(*values: tuple[float, ...]) -> Evidence:
    return Evidence(
        {
            ("paper", name, level): {"mean_ms": value}
            for name, curve in zip("abc", values, strict=True)
            for level, value in zip(LEVELS, curve, strict=True)
        }
    )


def grade(check: Check, evidence: Evidence) -> Grade | None:
    return check.judge(evidence).grade


@pytest.mark.parametrize(
    ("published", "ours", "expected"),
    [
        (4.0, 2.0, "reproduced"),
        (4.0, 1.9, "partly"),
        (4.0, 1.01, "not reproduced"),
        (4.0, 0.25, "not reproduced"),
        (0.25, 0.5, "reproduced"),
        (0.25, 0.6, "partly"),
        (0.25, 1.0, "not reproduced"),
        (0.25, 4.0, "not reproduced"),
        (0.25, 0.0, "reproduced"),
        (4.0, 0.0, "not reproduced"),
    ],
)
def test_half_of_an_effect_reproduces_it(published: float, ours: float, expected: Grade) -> None:
    assert effect(ours, published) == expected


def test_half_of_a_small_effect_is_more_than_noise() -> None:
    assert half(1.01) == 1.02
    assert half(0.99) == 1 / 1.02
    assert half(4.0) == 2.0


def test_a_ratio_gives_both_figures_and_the_bound() -> None:
    found = at_level("ratio", of="A", over="B", published=0.25)
    answer = found.judge(at_250(a=30.0, b=100.0))
    assert (found.figure, found.theirs, found.rule) == ("mean latency: A / B at 250 users", "0.25", "≤ 0.50")
    assert (answer.here, answer.grade) == ("0.30", "reproduced")
    assert grade(found, at_250(a=100.0, b=100.0)) == "not reproduced"


def test_a_ratio_over_nothing_is_not_judged() -> None:
    found = at_level("ratio", of="A", over="B", published=2.0)
    with pytest.raises(LackingError, match="mean latency of B that is not 0"):
        found.judge(at_250(a=1.0, b=0.0))


def test_alike_allows_a_tenth_or_their_own_difference() -> None:
    published = {"A": {250.0: {"mean_ms": 2.0}}, "B": {250.0: {"mean_ms": 3.0}}}
    theirs = Terms(scenario="report", algorithms=TERMS.algorithms, published=published)
    found = at_level("alike", of=["A", "B"])
    wider = at_level("alike", theirs, of=["A", "B"])
    assert grade(found, at_250(a=100.0, b=109.0)) == "reproduced"
    assert grade(found, at_250(a=120.0, b=100.0)) == "partly"
    assert grade(found, at_250(a=140.0, b=100.0)) == "not reproduced"
    assert grade(wider, at_250(a=140.0, b=100.0)) == "reproduced"
    assert grade(wider, at_250(a=160.0, b=100.0)) == "not reproduced"
    assert grade(found, at_250(a=0.0, b=100.0)) == "not reproduced"
    assert grade(found, at_250(a=0.0, b=0.0)) == "reproduced"


def test_the_best_is_judged_against_the_best_of_the_others() -> None:
    lowest, highest = (at_level(kind, of="A", over=["B", "C"]) for kind in ("lowest", "highest"))
    assert lowest.figure == "mean latency: A / lowest of B, C at 250 users"
    for found, ours, expected in (
        (lowest, 90.0, "reproduced"), (lowest, 105.0, "partly"), (lowest, 150.0, "not reproduced"),
        (highest, 210.0, "reproduced"), (highest, 190.0, "partly"), (highest, 90.0, "not reproduced"),
        (lowest, 0.0, "reproduced"), (highest, 0.0, "not reproduced"),
    ):  # fmt: skip
        assert grade(found, at_250(a=ours, b=100.0, c=200.0)) == expected


def test_a_rival_of_nothing_is_not_judged() -> None:
    with pytest.raises(LackingError):
        over_best(1.0, [0.0, 2.0], "lowest")
    assert beaten(over_best(1.0, [0.0, 2.0], "highest"), "highest") == "not reproduced"


def test_within_has_bounds_on_both_sides() -> None:
    found = at_level("within", of="A", theirs="some", at_least=2.0, at_most=3.0)
    assert found.rule == "≥ 2.00, ≤ 3.00"
    assert [grade(found, at_250(a=value)) for value in (1.9, 2.0, 3.0, 3.1)] == [
        "not reproduced", "reproduced", "reproduced", "not reproduced",
    ]  # fmt: skip


def test_several_within_a_bound_are_judged_by_the_one_farthest_out() -> None:
    found = at_level("within", of=["A", "B"], theirs="0", at_most=1.0)
    assert found.judge(at_250(a=0.0, b=0.5)).grade == "reproduced"
    assert found.judge(at_250(a=0.0, b=1.5)).here == "0 to 1.50"
    assert grade(found, at_250(a=0.0, b=1.5)) == "not reproduced"


def test_what_is_not_there_is_named_once_each_by_level() -> None:
    found = at_level("alike", of=["A", "B", "B", "C"], at=[250, 250, 10, 250])
    with pytest.raises(LackingError) as lacking:
        found.judge(at_250(a=1.0))
    assert str(lacking.value) == "`b`, `c` at 250 users, `b` at 10 users in `report`"


def test_a_figure_that_a_trial_does_not_have_is_named() -> None:
    found = at_level("within", metric="p99_ms", of="A", theirs="", at_most=1.0)
    with pytest.raises(LackingError) as lacking:
        found.judge(at_250(a=1.0))
    assert str(lacking.value) == "a P99 of `a` at 250 users in `report`"


def test_the_faster_of_two_is_the_one_with_more_requests_that_succeed() -> None:
    evidence = Evidence({
        ("report", "a", 250.0): {"requests_per_s": 100.0, "failures_per_s": 90.0, "mean_ms": 1.0},
        ("report", "b", 250.0): {"requests_per_s": 50.0, "failures_per_s": 0.0, "mean_ms": 2.0},
    })  # fmt: skip
    spots = [
        Spot(scenario="report", algorithm=OneOf(algorithms=("a", "b"), pick=pick), level=250)
        for pick in ("faster", "slower")
    ]  # type: list[Spot]
    assert evidence.values("mean_ms", spots) == [2.0, 1.0]


def test_curves_are_alike_when_they_are_so_where_they_are_farthest_apart() -> None:
    found = along("alike along")
    near, far = (100.0, 200.0, 300.0, 400.0, 500.0), (100.0, 200.0, 300.0, 600.0, 500.0)
    assert grade(found, curves(near, near, near)) == "reproduced"
    answer = found.judge(curves(near, far, near))
    assert (answer.here, answer.grade) == ("1.50 at 1400", "not reproduced")


def test_only_the_levels_asked_for_are_judged() -> None:
    near, far = (100.0, 200.0, 300.0, 400.0, 500.0), (100.0, 200.0, 300.0, 600.0, 500.0)
    below = along("alike along", to=1000)
    assert grade(below, curves(near, far, near)) == "reproduced"
    assert below.figure == "largest / smallest mean latency of wrr, fair, dynlb at up to 1000 users"
    above = along("alike along", **{"from": 3000})
    with pytest.raises(LackingError, match=r"`a`, `b`, `c` at 3000 or more users in `paper`"):
        above.judge(curves(near, far, near))


def test_the_best_curve_is_best_at_every_level() -> None:
    found = along("lowest along", candidate="dynlb")
    high = (10.0, 20.0, 30.0, 40.0, 50.0)
    assert grade(found, curves(high, high, (9.0, 19.0, 29.0, 39.0, 49.0))) == "reproduced"
    assert grade(found, curves(high, high, (9.0, 19.0, 29.0, 41.0, 51.0))) == "partly"
    assert grade(found, curves(high, high, (9.0, 21.0, 31.0, 41.0, 51.0))) == "not reproduced"


def test_significantly_higher_is_more_than_higher() -> None:
    found = along("highest along", candidate="dynlb", margin=1.1)
    flat, little, much = ((value,) * len(LEVELS) for value in (100.0, 105.0, 111.0))
    assert grade(found, curves(flat, flat, little)) == "not reproduced"
    assert grade(found, curves(flat, flat, much)) == "reproduced"


def test_a_peak_lies_where_the_source_saw_it() -> None:
    found = along("peak between", peak=[1000, 1400], theirs="1200")
    peak, rising = (1.0, 2.0, 4.0, 3.0, 2.0), (1.0, 2.0, 3.0, 4.0, 5.0)
    assert grade(found, curves(peak, peak, peak)) == "reproduced"
    assert grade(found, curves(peak, peak, rising)) == "partly"
    assert grade(found, curves(rising, rising, peak)) == "not reproduced"
    assert found.judge(curves(peak, peak, rising)).here == "wrr 1000, fair 1000, dynlb 2000"


def test_a_peak_needs_levels_on_both_sides() -> None:
    rising = (1.0, 2.0, 3.0, 4.0, 5.0)
    found = along("peak between", peak=[1800, 2200])
    with pytest.raises(LackingError, match=r"a level over 2200"):
        found.judge(curves(rising, rising, rising))


def test_a_curve_rises_at_every_step_but_for_noise() -> None:
    found = along("rises")
    up, down = (1.0, 2.0, 3.0, 2.99, 5.0), (5.0, 4.0, 3.0, 2.0, 1.0)
    assert grade(found, curves(up, up, up)) == "reproduced"
    assert grade(found, curves(up, up, down)) == "partly"
    assert grade(found, curves(down, down, down)) == "not reproduced"


def test_the_fastest_growth_is_compared_with_every_other() -> None:
    found = along("grows fastest", candidate="wrr")
    double, triple = (1.0, 1.0, 1.0, 1.0, 2.0), (1.0, 1.0, 1.0, 1.0, 3.0)
    assert grade(found, curves(triple, double, double)) == "reproduced"
    assert grade(found, curves(triple, triple, double)) == "partly"
    assert grade(found, curves(double, double, triple)) == "not reproduced"


def test_a_verdict_is_what_all_figures_say() -> None:
    assert verdict([]) == "not measured"
    assert verdict(["reproduced", "reproduced"]) == "reproduced"
    assert verdict(["reproduced", "not reproduced"]) == "partly"
    assert verdict(["not reproduced"]) == "not reproduced"


def test_a_finding_is_judged_by_what_was_measured_and_says_what_was_not() -> None:
    there = at_level("within", of="A", theirs="", at_most=2.0)
    away = at_level("within", of="B", theirs="", at_most=2.0)
    ruling = rule(Finding(statement="", where="", checks=(there, away), beside=(away,)), at_250(a=1.0))
    assert ruling.verdict == "reproduced"
    assert [answer.lacking for _, answer in (*ruling.judged, *ruling.beside)] == [
        "", "`b` at 250 users in `report`", "`b` at 250 users in `report`",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.001234, "0.001"),
        (0.4567, "0.46"),
        (17.32, "17.3"),
        (1234.5, "1,234"),
        (math.inf, "inf"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text
