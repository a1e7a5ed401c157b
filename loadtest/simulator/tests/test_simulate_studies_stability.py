"""The stability maps: their points, what settles and what does not, margins, files."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_loadtest.reporting.markdown import filled
from steelyard_simulator.model import OpenClients
from steelyard_simulator.run import run
from steelyard_simulator.studies.measures import Runs, averaged, capacities
from steelyard_simulator.studies.stability_study import (
    LAWS,
    SETTLED,
    StabilityTrial,
    draw,
    figures_of,
    page,
    trials,
)

PRINTED, AWAKE, SCALED, CSWRR, DEFAULT = LAWS
QUICK = trials(Namespace(quick=True))


def trial(load: float = 0.8, delay_ticks: int = 0) -> StabilityTrial:
    return StabilityTrial(law=DEFAULT, load=load, delay_ticks=delay_ticks)


def test_the_printed_law_and_the_default_have_the_controllers_defaults() -> None:
    for law in (PRINTED, CSWRR, DEFAULT):
        made = laws.create(LAWS[law].law or "", LAWS[law].parameters)
        assert dict(made.parameters) == dict(laws.create(LAWS[law].law or "").parameters)


@pytest.mark.parametrize(("law", "of"), [(AWAKE, {"H": 0.7}), (SCALED, {"H": 0.7, "scale_by_k": 1.0})])
def test_the_papers_other_forms_have_what_their_titles_say(law: str, of: Mapping[str, float]) -> None:
    assert laws.create("paper", LAWS[law].parameters).parameters.items() >= of.items()


def test_load_is_of_the_capacity_after_the_change() -> None:
    case = trial(load=0.5).case()
    before, after = capacities(case, np.array([0.0, case.duration_s])).sum(axis=1)
    assert after < before
    assert isinstance(case.clients, OpenClients)
    assert case.clients.rate_per_s == pytest.approx(0.5 * after)


def test_half_of_a_delay_is_before_the_controller() -> None:
    prompt, late = trial().case().delays, trial(delay_ticks=3).case().delays
    assert late.sample_s - prompt.sample_s == pytest.approx(2.0)
    assert late.report_s - prompt.report_s == pytest.approx(2.0)
    assert late.fetch_s - prompt.fetch_s == pytest.approx(1.0)


def test_a_coarse_map_has_fewer_points_and_all_are_on_the_full_one() -> None:
    full = trials(Namespace(quick=False))
    assert set(QUICK) < set(full)
    assert {trial(), trial(delay_ticks=2)} < set(QUICK)


@pytest.mark.parametrize(
    ("law", "load", "settles"),
    [(PRINTED, 0.4, True), (PRINTED, 0.8, False), (CSWRR, 0.8, True), (DEFAULT, 0.8, True)],
)
def test_the_papers_law_swings_above_half_load_and_the_others_do_not(
    law: str, load: float, settles: bool
) -> None:
    case = StabilityTrial(law=law, load=load).case()
    assert (figures_of(case, run(case, 1))["swing"] < SETTLED) is settles


def runs_of(swing: float, late: float) -> Runs:
    return {
        at: [{"swing": late if at.delay_ticks else swing, "misplaced": 0.02, "p99_ms": at.load * 1000}]
        for at in QUICK
    }


def test_report_tells_of_every_law_in_time_and_late_by_load() -> None:
    text = page(Namespace(), runs_of(0.01, 0.9), "the command").text({"stability": "plots/stability.png"})
    head, in_time, late, misplaced, p99 = text.split("**Swing", 1)[0], *text.split("| law |")[1:]
    assert "`the command`" in head
    assert "(plots/stability.png)" in head
    for law in LAWS:
        assert f"| {law} | 1.0 | 1.0 | 1.0 | 1.0 |" in in_time
        assert f"| {law} | 90.0 | 90.0 | 90.0 | 90.0 |" in late
        assert f"| {law} | 2.0 | 2.0 | 2.0 | 2.0 |" in misplaced
        assert f"| {law} | 400 | 600 | 800 | 950 |" in p99
    assert "all messages 6 ticks late" in text


def test_report_goes_between_its_marks_only() -> None:
    page = "a\n<!-- simulate stability: begin -->\n<!-- simulate stability: end -->\nb"
    assert filled(page, "simulate stability", "x") == (
        "a\n<!-- simulate stability: begin -->\n\nx\n<!-- simulate stability: end -->\nb"
    )
    with pytest.raises(ValueError, match="simulate scale: begin"):
        filled(page, "simulate scale", "x")


def test_maps_are_drawn_with_shares_that_stand_still_and_those_that_fly(tmp_path: Path) -> None:
    draw(tmp_path / "maps.png", averaged(runs_of(0.0, 3.0)))
    assert matplotlib.image.imread(tmp_path / "maps.png").std() > 0.01
