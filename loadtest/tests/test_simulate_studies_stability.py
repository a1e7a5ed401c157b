"""The stability maps: their points, what settles and what does not, margins, files."""

import math
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_loadtest.marked_page import filled
from steelyard_loadtest.simulate.model import OpenClients
from steelyard_loadtest.simulate.run import run
from steelyard_loadtest.simulate.studies.capacities import capacities
from steelyard_loadtest.simulate.studies.stability.figures import (
    SETTLED,
    Figures,
    Maps,
    Point,
    figures_of,
    point,
)
from steelyard_loadtest.simulate.studies.stability.grid import (
    BY_NAME,
    STABILITY_WORK_S,
    VARIANTS,
    MapCells,
    StabilityCell,
    map_cells,
)
from steelyard_loadtest.simulate.studies.stability.heat_maps import draw
from steelyard_loadtest.simulate.studies.stability.reach import (
    Reach,
    delay_reach,
    gain_reach,
    interval_reach,
    load_reach,
    reach,
)
from steelyard_loadtest.simulate.studies.stability.report import report, stability_csv
from steelyard_loadtest.simulate.studies.stability.study import simulated


def cell(variant: str = "steelyard", load: float = 0.8) -> StabilityCell:
    knob = BY_NAME[variant].knob
    return StabilityCell(
        variant=variant, load=load, delay_ticks=0, mismatch_ticks=0, interval_s=1.0,
        knob=None if knob is None else knob.default,
    )  # fmt: skip


def swung(at: StabilityCell, swing: float) -> Point:
    return point(at, [Figures(swing=swing, misplaced=0.0, p99_ms=1.0)])


def test_every_law_of_the_maps_is_one_that_the_controller_has() -> None:
    for variant in VARIANTS:
        case = cell(variant.name).case()
        made = laws.create(variant.law, case.balancing.parameters)
        if variant.knob is not None:
            assert made.parameters[variant.knob.name] == variant.knob.default


def test_the_printed_law_and_the_default_have_the_controllers_defaults() -> None:
    for name in ("paper", "cswrr", "steelyard"):
        made = laws.create(BY_NAME[name].law, cell(name).case().balancing.parameters)
        assert dict(made.parameters) == dict(laws.create(BY_NAME[name].law).parameters)


def test_load_is_of_the_capacity_after_the_change() -> None:
    case = cell(load=0.5).case()
    before, after = capacities(case, np.array([0.0, case.duration_s])).sum(axis=1)
    assert after < before
    assert isinstance(case.clients, OpenClients)
    assert case.clients.rate_per_s == pytest.approx(0.5 * after / STABILITY_WORK_S)


def test_half_of_a_delay_is_before_the_controller_and_a_mismatch_is_of_samples_alone() -> None:
    prompt = cell().case().delays
    late = replace(cell(), delay_ticks=3, interval_s=2.0).case().delays
    assert late.sample_s - prompt.sample_s == pytest.approx(4.0)
    assert late.report_s - prompt.report_s == pytest.approx(4.0)
    assert late.fetch_s - prompt.fetch_s == pytest.approx(2.0)
    apart = replace(cell(), mismatch_ticks=2).case().delays
    assert apart.sample_s - prompt.sample_s == pytest.approx(2.0)
    assert (apart.report_s, apart.fetch_s) == (prompt.report_s, prompt.fetch_s)


def test_coarse_maps_are_of_fewer_points_and_hold_every_default() -> None:
    full, quick = map_cells(quick=False), map_cells(quick=True)
    assert len(quick.delay) < len(full.delay)
    for maps in (full, quick):
        for variant in VARIANTS:
            assert replace(cell(variant.name), load=variant.gain_load) in maps.gain


@pytest.mark.parametrize(
    ("variant", "load", "settles"),
    [("paper", 0.4, True), ("paper", 0.8, False), ("cswrr", 0.8, True), ("steelyard", 0.8, True)],
)
def test_the_papers_law_swings_above_half_load_and_the_others_do_not(
    variant: str, load: float, settles: bool
) -> None:
    case = cell(variant, load).case()
    assert (figures_of(case, run(case, 1)).swing < SETTLED) is settles


def test_reach_ends_at_the_first_value_that_swings() -> None:
    settled = {0.0: True, 1.0: True, 2.0: False, 3.0: True}
    assert reach(settled, 0.0, upwards=True) == Reach(last_settled=1.0, first_unsettled=2.0)
    assert reach(settled, 3.0, upwards=False) == Reach(last_settled=3.0, first_unsettled=2.0)
    assert reach(settled, 2.0, upwards=True) == Reach(last_settled=None, first_unsettled=2.0)
    assert reach({1.0: True}, 1.0, upwards=True) == Reach(last_settled=1.0, first_unsettled=None)


def test_margins_go_along_one_thing_with_the_rest_at_its_default() -> None:
    loads = [
        swung(cell(load=load), swing) for load, swing in ((0.3, 0.01), (0.5, 0.1), (0.8, 0.5), (0.9, 0.1))
    ]
    assert load_reach(loads) == Reach(last_settled=0.5, first_unsettled=0.8)
    late = [swung(replace(cell(), delay_ticks=ticks), ticks / 20) for ticks in (0, 1, 2, 4, 6)]
    assert delay_reach(late, 0.8) == Reach(last_settled=2.0, first_unsettled=4.0)
    variant = BY_NAME["steelyard"]
    points = [
        swung(replace(cell(), interval_s=interval_s, knob=tau), swing)
        for interval_s, tau, swing in (
            (1.0, 30.0, 0.01), (1.0, 3.0, 0.1), (1.0, 1.0, 0.3), (2.0, 30.0, 0.1), (4.0, 30.0, 0.4),
            (0.5, 30.0, 0.1), (0.5, 1.0, 0.9),
        )
    ]  # fmt: skip
    assert gain_reach(points, variant) == Reach(last_settled=3.0, first_unsettled=1.0)
    assert interval_reach(points, variant, upwards=True) == Reach(last_settled=2.0, first_unsettled=4.0)
    assert interval_reach(points, variant, upwards=False) == Reach(last_settled=0.5, first_unsettled=None)
    assert gain_reach(points, BY_NAME["cswrr"]) is None


def maps_of(swing: float) -> Maps:
    quick = map_cells(quick=True)
    return Maps(
        delay=[swung(at, swing) for at in quick.delay],
        mismatch=[swung(at, swing) for at in quick.mismatch],
        gain=[swung(at, swing) for at in quick.gain],
    )


def test_report_tells_margins_of_every_law() -> None:
    text = report(maps_of(0.01), "the command", None)
    for variant in VARIANTS:
        assert f"| {variant.title} | 0.95 (the map's end) |" in text
    assert "oscillates" not in text.split("| law |")[1]
    assert text.count("oscillates from the start") == 0
    assert report(maps_of(0.9), "the command", None).count("oscillates from the start") > len(VARIANTS)


def test_report_goes_between_its_marks_only() -> None:
    page = "a\n<!-- simulate stability: begin -->\n<!-- simulate stability: end -->\nb"
    assert filled(page, "simulate stability", "x") == (
        "a\n<!-- simulate stability: begin -->\n\nx\n<!-- simulate stability: end -->\nb"
    )
    with pytest.raises(ValueError, match="simulate scale: begin"):
        filled(page, "simulate scale", "x")


def test_maps_are_drawn_with_shares_that_stand_still_and_those_that_fly(tmp_path: Path) -> None:
    still, flying = maps_of(0.0), maps_of(3.0)
    mixed = Maps(delay=still.delay, mismatch=flying.mismatch, gain=still.gain)
    draw(tmp_path / "maps.png", mixed, VARIANTS[-2:])
    assert matplotlib.image.imread(tmp_path / "maps.png").std() > 0.01


def test_the_same_seeds_give_the_same_csv_however_many_processes() -> None:
    few = MapCells(
        delay=[cell("paper", 0.3), cell("cswrr", 0.3)],
        mismatch=[replace(cell("cswrr", 0.3), mismatch_ticks=1)],
        gain=[cell("cswrr", 0.3)],
    )
    one, _ = simulated(few, seeds=2, first_seed=1, jobs=1)
    two, _ = simulated(few, seeds=2, first_seed=1, jobs=2)
    assert stability_csv(one) == stability_csv(two)
    # The map over gain shares its point with the one over delay.
    assert one.gain[0] is one.delay[1]
    assert not math.isnan(one.delay[1].swing.half_width)
