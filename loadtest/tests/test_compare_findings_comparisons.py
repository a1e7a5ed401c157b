"""Each kind of comparison, on figures that confirm a source and on others."""

import math

import pytest
from steelyard_loadtest.compare.findings.comparisons import Compared, Grade, compare, half, number
from steelyard_loadtest.compare.findings.evidence import Terms, World
from steelyard_loadtest.compare.findings.verdicts import verdict_of

LEVELS = (200.0, 600.0, 1000.0, 1400.0, 2000.0)
TERMS = Terms("report", "users", {"A": "a", "B": "b", "C": "c"})
CURVES = Terms("paper", "users", {"wrr": "a", "fair": "b", "dynlb": "c"})

UP = (10.0, 20.0, 30.0, 40.0, 50.0)
DOWN = UP[::-1]


def at_250(**values: float) -> World:
    return {("report", name, 250.0): {"mean_ms": value} for name, value in values.items()}


def curves(*values: tuple[float, ...]) -> World:
    return {
        ("paper", name, level): {"mean_ms": value}
        for name, curve in zip("abc", values, strict=True)
        for level, value in zip(LEVELS, curve, strict=True)
    }


def compared(line: str, world: World, terms: Terms = TERMS) -> Compared:
    (one,) = compare(line, terms, world)
    return one


def grade(line: str, *values: tuple[float, ...]) -> Grade | None:
    return compared(line, curves(*values), CURVES).grade


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
    assert compared(f"mean_ms: A / B at 250, theirs {published}", at_250(a=ours, b=1.0)).grade == expected


def test_half_of_a_small_effect_is_more_than_noise() -> None:
    assert half(1.01) == 1.02
    assert half(0.99) == 1 / 1.02
    assert half(4.0) == 2.0


def test_a_ratio_gives_both_figures_and_the_bound() -> None:
    one = compared("mean_ms: A / B at 250, theirs 0.25", at_250(a=30.0, b=100.0))
    assert one == ("mean latency: A / B at 250 users", "0.25", "≤ 0.50", "0.30", "reproduced")


def test_a_ratio_of_lists_is_of_every_pair_at_every_level() -> None:
    lines = compare("mean_ms: A / B, C at 100 and 250", TERMS, {})
    assert [one.figure for one in lines] == [
        f"mean latency: A / {name} at {level} users" for name in "BC" for level in (100, 250)
    ]
    (two,) = compare("mean_ms: A at 250 / B at 100", TERMS, {})
    assert two.figure == "mean latency: A at 250 users / B at 100 users"


def test_a_substitute_is_compared_with_the_figures_of_the_original() -> None:
    published = {"X": {250.0: {"mean_ms": 3.0}}, "B": {250.0: {"mean_ms": 2.0}}}
    one = compared("mean_ms: A (there: X) / B at 250", {}, TERMS._replace(published=published))
    assert (one.figure, one.theirs) == ("mean latency: A (there: X) / B at 250 users", "1.50")


def test_a_ratio_over_nothing_is_not_judged() -> None:
    for line in ("mean_ms: A / B at 250, theirs 2", "mean_ms: A / lowest of B, C at 250"):
        one = compared(line, at_250(a=1.0, b=0.0, c=2.0))
        assert (one.here, one.grade) == (
            "not measured yet: needs a figure other than 0 to compare with",
            None,
        )


def test_alike_allows_a_tenth_or_their_own_difference() -> None:
    published = {"A": {250.0: {"mean_ms": 2.0}}, "B": {250.0: {"mean_ms": 3.0}}}
    wider = TERMS._replace(published=published)
    for terms, a, b, expected in (
        (TERMS, 100.0, 109.0, "reproduced"), (TERMS, 120.0, 100.0, "partly"),
        (TERMS, 140.0, 100.0, "not reproduced"),
        (wider, 140.0, 100.0, "reproduced"), (wider, 160.0, 100.0, "not reproduced"),
        (TERMS, 0.0, 100.0, "not reproduced"), (TERMS, 0.0, 0.0, "reproduced"),
    ):  # fmt: skip
        assert compared("mean_ms alike: A, B at 250", at_250(a=a, b=b), terms).grade == expected


def test_the_best_is_judged_against_the_best_of_the_others() -> None:
    for best, ours, expected in (
        ("lowest", 90.0, "reproduced"), ("lowest", 105.0, "partly"), ("lowest", 150.0, "not reproduced"),
        ("highest", 210.0, "reproduced"), ("highest", 190.0, "partly"), ("highest", 90.0, "not reproduced"),
        ("lowest", 0.0, "reproduced"), ("highest", 0.0, "not reproduced"),
    ):  # fmt: skip
        one = compared(f"mean_ms: A / {best} of B, C at 250", at_250(a=ours, b=100.0, c=200.0))
        assert (one.figure, one.grade) == (f"mean latency: A / {best} of B, C at 250 users", expected)


def test_within_has_bounds_on_both_sides() -> None:
    line = "mean_ms: A at 250 ≥ 2 ≤ 3, theirs some, or more"
    assert compared(line, {}).rule == "≥ 2.00, ≤ 3.00"
    assert compared(line, {}).theirs == "some, or more"
    assert [compared(line, at_250(a=value)).grade for value in (1.9, 2.0, 3.0, 3.1)] == [
        "not reproduced", "reproduced", "reproduced", "not reproduced",
    ]  # fmt: skip


def test_several_within_a_bound_are_judged_by_the_one_farthest_out() -> None:
    line = "mean_ms: A, B at 250 ≤ 1, theirs 0"
    assert compared(line, at_250(a=0.0, b=0.5)).grade == "reproduced"
    assert compared(line, at_250(a=0.0, b=1.5))[-2:] == ("0 to 1.50", "not reproduced")


def test_a_difference_is_within_bounds() -> None:
    line = "mean_ms: A - B at 250 ≥ 2, theirs 4"
    assert compared(line, at_250(a=5.0, b=3.0))[-2:] == ("2.00", "reproduced")
    assert compared(line, at_250(a=5.0, b=3.5)).grade == "not reproduced"
    assert compared(line, {})[:3] == ("mean latency: A - B at 250 users", "4", "≥ 2.00")


def test_what_is_not_there_is_named_once_each_by_level() -> None:
    one = compared("mean_ms alike: A, B, B at 10, C at 250", at_250(a=1.0))
    assert one.here == "not measured yet: needs `b`, `c` at 250 users, `b` at 10 users in `report`"
    assert one.grade is None


def test_a_figure_that_a_trial_does_not_have_is_named() -> None:
    one = compared("p99_ms: A at 250 ≤ 1", at_250(a=1.0))
    assert one.here == "not measured yet: needs a P99 of `a` at 250 users in `report`"


def test_the_faster_of_two_is_the_one_with_more_requests_that_succeed() -> None:
    world: World = {
        ("report", "a", 250.0): {"requests_per_s": 100.0, "failures_per_s": 90.0, "mean_ms": 1.0},
        ("report", "b", 250.0): {"requests_per_s": 50.0, "failures_per_s": 0.0, "mean_ms": 2.0},
    }
    terms = TERMS._replace(algorithms={"F": "the faster of a and b", "S": "the slower of a and b"})
    assert compared("mean_ms: F / S at 250, theirs 2", world, terms).here == "2.00"


def test_curves_are_alike_when_they_are_so_where_they_are_farthest_apart() -> None:
    line, far = "mean_ms alike: wrr, fair, dynlb at 0..", (10.0, 20.0, 30.0, 60.0, 50.0)
    assert grade(line, UP, UP, UP) == "reproduced"
    assert compared(line, curves(UP, far, UP), CURVES)[-3:] == (
        "≤ 1.10 at every level", "1.50 at 1400", "not reproduced",
    )  # fmt: skip


def test_only_the_levels_asked_for_are_judged() -> None:
    far = (10.0, 20.0, 30.0, 60.0, 50.0)
    below = compared("mean_ms alike: wrr, fair, dynlb at 0..1000", curves(UP, far, UP), CURVES)
    assert below.grade == "reproduced"
    assert below.figure == "mean latency, largest / smallest: wrr, fair, dynlb at up to 1000 users"
    above = compared("mean_ms alike: wrr, fair, dynlb at 3000..", curves(UP, far, UP), CURVES)
    assert above.here == "not measured yet: needs `a`, `b`, `c` at 3000 or more users in `paper`"


def test_the_best_curve_is_best_at_every_level() -> None:
    line = "mean_ms: dynlb / lowest of wrr, fair at 0.."
    assert grade(line, UP, UP, (9.0, 19.0, 29.0, 39.0, 49.0)) == "reproduced"
    assert grade(line, UP, UP, (9.0, 19.0, 29.0, 41.0, 51.0)) == "partly"
    assert grade(line, UP, UP, (9.0, 21.0, 31.0, 41.0, 51.0)) == "not reproduced"
    one = compared("mean_ms: dynlb / lowest of wrr, fair at 1400..", curves(UP, UP, DOWN), CURVES)
    assert one.here == "2 of 2: 0.50 at 1400, 0.20 at 2000"


def test_significantly_higher_is_more_than_higher() -> None:
    line = "mean_ms: dynlb / highest of wrr, fair at 0.. ≥ 1.1"
    flat, little, much = ((value,) * len(LEVELS) for value in (100.0, 105.0, 111.0))
    assert grade(line, flat, flat, little) == "not reproduced"
    assert grade(line, flat, flat, much) == "reproduced"


def test_a_peak_lies_where_the_source_saw_it() -> None:
    line, peak = (
        "mean_ms peaks: wrr, fair, dynlb at 0.. ≥ 1000 ≤ 1400, theirs 1200",
        (1.0, 2.0, 4.0, 3.0, 2.0),
    )
    assert grade(line, peak, peak, peak) == "reproduced"
    assert grade(line, peak, peak, UP) == "partly"
    assert grade(line, UP, UP, peak) == "not reproduced"
    assert compared(line, curves(peak, peak, UP), CURVES).here == "wrr 1000, fair 1000, dynlb 2000"


@pytest.mark.parametrize("ends", [(100, 300), (1800, 2200), (700, 900)])
def test_a_peak_needs_levels_on_both_sides_and_between(ends: tuple[int, int]) -> None:
    low, high = ends
    line = f"mean_ms peaks: wrr, fair, dynlb at 0.. ≥ {low} ≤ {high}"
    assert compared(line, curves(UP, UP, UP), CURVES).here == (
        f"not measured yet: needs levels from {low} to {high} and on both sides"
    )


def test_a_curve_rises_at_every_step_but_for_noise() -> None:
    line, level = "mean_ms rises: wrr, fair, dynlb at 0..", (10.0, 20.0, 30.0, 29.9, 50.0)
    assert grade(line, level, level, level) == "reproduced"
    assert grade(line, level, level, DOWN) == "partly"
    assert grade(line, DOWN, DOWN, DOWN) == "not reproduced"


def test_the_fastest_growth_is_compared_with_every_other() -> None:
    line, double, triple = (
        "mean_ms grows fastest: wrr, fair, dynlb at 0..",
        (1.0,) * 4 + (2.0,),
        (1.0,) * 4 + (3.0,),
    )
    assert grade(line, triple, double, double) == "reproduced"
    assert grade(line, triple, triple, double) == "partly"
    assert grade(line, double, double, triple) == "not reproduced"


def test_one_level_is_no_curve() -> None:
    one = compared("mean_ms rises: wrr, fair, dynlb at 2000..", curves(UP, UP, UP), CURVES)
    assert one.here == "not measured yet: needs a second level"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("as good as it gets", "no such form of a comparison"),
        ("mean_ms wonderful: A at 250", "'wonderful'"),
        ("smell: A / B at 250, theirs 2", "'smell'"),
        ("mean_ms: A / D at 250, theirs 2", "'D'"),
        ("mean_ms: A / B at 250, theirs double", "could not convert"),
        ("mean_ms: A / B, theirs 2", "a comparison needs a level"),
    ],
)
def test_a_line_that_is_not_as_it_must_be_is_named(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=rf"^`{line}`: .*{why}"):
        compare(line, TERMS, {})


def test_a_verdict_is_what_all_figures_say() -> None:
    assert verdict_of([]) == "not measured yet"
    assert verdict_of(["reproduced", "reproduced"]) == "reproduced"
    assert verdict_of(["reproduced", "not reproduced"]) == "partly"
    assert verdict_of(["not reproduced"]) == "not reproduced"


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
