"""The stability maps: their points, what settles and what does not, margins, files."""

import io
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_loadtest.reporting.markdown import filled
from steelyard_simulator.model import OpenClients
from steelyard_simulator.run import run
from steelyard_simulator.studies.measures import Measures, Runs, averaged, capacities, runs_csv
from steelyard_simulator.studies.stability_grid import (
    BY_NAME,
    VARIANTS,
    StabilityTrial,
    default_trial,
    distinct,
    maps,
)
from steelyard_simulator.studies.stability_page import (
    SETTLED,
    Reach,
    figures_of,
    load_reach,
    page,
    reach,
)
from steelyard_simulator.studies.stability_plot import draw
from steelyard_simulator.studies.study import simulated


def trial(variant: str = "steelyard", load: float = 0.8) -> StabilityTrial:
    return default_trial(BY_NAME[variant], load)


def swung(swing: float) -> Measures:
    return averaged({"": [{"swing": swing, "misplaced": 0.0, "p99_ms": 1.0}]})[""]


def test_every_law_of_the_maps_is_one_that_the_controller_has() -> None:
    for variant in VARIANTS:
        case = trial(variant.name).case()
        made = laws.create(variant.law, case.balancing.parameters)
        if variant.knob is not None:
            assert made.parameters[variant.knob.name] == variant.knob.default


def test_the_printed_law_and_the_default_have_the_controllers_defaults() -> None:
    for name in ("paper", "cswrr", "steelyard"):
        made = laws.create(BY_NAME[name].law, trial(name).case().balancing.parameters)
        assert dict(made.parameters) == dict(laws.create(BY_NAME[name].law).parameters)


def test_load_is_of_the_capacity_after_the_change() -> None:
    case = trial(load=0.5).case()
    before, after = capacities(case, np.array([0.0, case.duration_s])).sum(axis=1)
    assert after < before
    assert isinstance(case.clients, OpenClients)
    assert case.clients.rate_per_s == pytest.approx(0.5 * after)


def test_half_of_a_delay_is_before_the_controller_and_a_mismatch_is_of_samples_alone() -> None:
    prompt = trial().case().delays
    late = replace(trial(), delay_ticks=3, interval_s=2.0).case().delays
    assert late.sample_s - prompt.sample_s == pytest.approx(4.0)
    assert late.report_s - prompt.report_s == pytest.approx(4.0)
    assert late.fetch_s - prompt.fetch_s == pytest.approx(2.0)
    apart = replace(trial(), mismatch_ticks=2).case().delays
    assert apart.sample_s - prompt.sample_s == pytest.approx(2.0)
    assert (apart.report_s, apart.fetch_s) == (prompt.report_s, prompt.fetch_s)


def test_coarse_maps_are_of_fewer_points_and_hold_every_default() -> None:
    full, quick = maps(quick=False), maps(quick=True)
    assert len(quick["load-delay"]) < len(full["load-delay"])
    for each in (full, quick):
        for variant in VARIANTS:
            assert replace(trial(variant.name), load=variant.gain_load) in each["gain-interval"]


@pytest.mark.parametrize(
    ("variant", "load", "settles"),
    [("paper", 0.4, True), ("paper", 0.8, False), ("cswrr", 0.8, True), ("steelyard", 0.8, True)],
)
def test_the_papers_law_swings_above_half_load_and_the_others_do_not(
    variant: str, load: float, settles: bool
) -> None:
    case = trial(variant, load).case()
    assert (figures_of(case, run(case, 1))["swing"] < SETTLED) is settles


def test_reach_ends_at_the_first_value_that_swings() -> None:
    def walk(settled: dict[float, bool], default: float, *, upwards: bool) -> Reach:
        start = replace(trial(), knob=default)
        points = {
            replace(start, knob=value): swung(0.1 if still else 0.9) for value, still in settled.items()
        }
        return reach(points, [start], "knob", upwards=upwards)

    settled = {0.0: True, 1.0: True, 2.0: False, 3.0: True}
    assert walk(settled, 0.0, upwards=True) == Reach(last_settled=1.0, first_unsettled=2.0)
    assert walk(settled, 3.0, upwards=False) == Reach(last_settled=3.0, first_unsettled=2.0)
    assert walk(settled, 2.0, upwards=True) == Reach(last_settled=None, first_unsettled=2.0)
    assert walk({1.0: True}, 1.0, upwards=True) == Reach(last_settled=1.0, first_unsettled=None)


def test_margins_go_along_one_thing_with_the_rest_at_its_default() -> None:
    variant = BY_NAME["steelyard"]
    loads = {
        trial(load=load): swung(swing) for load, swing in ((0.3, 0.01), (0.5, 0.1), (0.8, 0.5), (0.9, 0.1))
    }
    assert load_reach(loads, variant) == Reach(last_settled=0.5, first_unsettled=0.8)
    late = {replace(trial(), delay_ticks=ticks): swung(ticks / 20) for ticks in (0, 1, 2, 4, 6)}
    assert reach(late, [trial(load=0.8)], "delay_ticks") == Reach(last_settled=2.0, first_unsettled=4.0)
    points = {
        replace(trial(), interval_s=interval_s, knob=tau): swung(swing)
        for interval_s, tau, swing in (
            (1.0, 30.0, 0.01), (1.0, 3.0, 0.1), (1.0, 1.0, 0.3), (2.0, 30.0, 0.1), (4.0, 30.0, 0.4),
            (0.5, 30.0, 0.1), (0.5, 1.0, 0.9),
        )
    }  # fmt: skip
    start = trial(load=variant.gain_load)
    gain = reach(points, [start], "knob", upwards=False)
    assert gain == Reach(last_settled=3.0, first_unsettled=1.0)
    assert reach(points, [start], "interval_s") == Reach(last_settled=2.0, first_unsettled=4.0)
    down = reach(points, [start], "interval_s", upwards=False)
    assert down == Reach(last_settled=0.5, first_unsettled=None)
    # Of several loads the one at which it swings first.
    two = late | {replace(trial(load=0.5), delay_ticks=ticks): swung(ticks / 10) for ticks in (0, 1, 2)}
    assert reach(two, [trial(load=0.5), trial(load=0.8)], "delay_ticks") == Reach(1.0, 2.0)


QUICK = maps(quick=True)


def runs_of(swing: float) -> Runs:
    return {at: [{"swing": swing, "misplaced": 0.0, "p99_ms": 1.0}] for at in distinct(QUICK)}


def test_report_tells_margins_of_every_law() -> None:
    text = page(QUICK, runs_of(0.01), "the command", None)
    for variant in VARIANTS:
        assert f"| {variant.title} | 0.95 (the map's end) |" in text
    assert "oscillates" not in text.split("| law |")[1]
    assert text.count("oscillates from the start") == 0
    assert page(QUICK, runs_of(0.9), "the command", None).count("oscillates from the start") > len(VARIANTS)


def test_report_goes_between_its_marks_only() -> None:
    page = "a\n<!-- simulate stability: begin -->\n<!-- simulate stability: end -->\nb"
    assert filled(page, "simulate stability", "x") == (
        "a\n<!-- simulate stability: begin -->\n\nx\n<!-- simulate stability: end -->\nb"
    )
    with pytest.raises(ValueError, match="simulate scale: begin"):
        filled(page, "simulate scale", "x")


def test_maps_are_drawn_with_shares_that_stand_still_and_those_that_fly(tmp_path: Path) -> None:
    still, flying = runs_of(0.0), runs_of(3.0)
    mixed = {at: flying[at] if at.mismatch_ticks else still[at] for at in still}
    draw(tmp_path / "maps.png", QUICK, mixed, VARIANTS[-2:])
    assert matplotlib.image.imread(tmp_path / "maps.png").std() > 0.01


def test_the_same_seeds_give_the_same_csv_however_many_processes() -> None:
    few = {
        "load-delay": [trial("paper", 0.3), trial("cswrr", 0.3)],
        "load-mismatch": [replace(trial("cswrr", 0.3), mismatch_ticks=1)],
        "gain-interval": [trial("cswrr", 0.3)],
    }
    work = [(at, seed) for at in distinct(few) for seed in (1, 2)]
    one, two = (simulated(work, figures_of, jobs=jobs, title="", stream=io.StringIO()) for jobs in (1, 2))
    assert runs_csv(one, 1) == runs_csv(two, 1)
    # The map over gain shares its point with the one over delay: one run of each seed.
    assert {len(runs) for runs in one.values()} == {2}
    assert len(one) == 3
