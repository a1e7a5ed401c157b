"""The stability study's figures, the defaults' margins, and both on a page. Pure but for its template.

A margin is how far one thing may go from its default before a law oscillates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from steelyard_loadtest.reporting.markdown import Column, markdown, table
from steelyard_loadtest.reporting.statistics import Interval
from steelyard_loadtest.reporting.wording import plus_minus
from steelyard_loadtest.templates import render_file

from steelyard_simulator.model import Case, RunResult
from steelyard_simulator.studies.measures import (
    Figures,
    Measures,
    Runs,
    averaged,
    capacities,
    misplaced,
    percentile_ms,
    shares,
    swing,
)
from steelyard_simulator.studies.stability_grid import (
    BUSY,
    PAPERS_EDGE,
    VARIANTS,
    Maps,
    StabilityTrial,
    Variant,
    default_trial,
)

Points = Mapping[StabilityTrial, Measures]

SETTLED = 0.2
"""Counting noise alone makes a law without a memory swing by up to 17 % of all traffic here (cswrr, ticks
of a quarter second); loops that are unstable swing by 30 % and more. The line is between them."""

LAST_PART = 1 / 3
"""Of the run: long after the change, so that a law that settles has."""

HIGHEST_PLANNED = 0.9
"""Beyond it the queues of a Poisson stream swing by themselves; nobody plans for that."""


def figures_of(case: Case, result: RunResult) -> Figures:
    """Sum up the last third of a run.

    swing       part of all traffic that goes to and fro (`measures.swing`)
    misplaced   part of the traffic at the wrong server: a law may stand still and be wrong
    """
    ticks = result.ticks
    last = ticks.t_s > case.duration_s * (1 - LAST_PART)
    weights = ticks.weights[last]
    return {
        "swing": swing(weights),
        "misplaced": misplaced(weights, shares(capacities(case, ticks.t_s[last]))),
        "p99_ms": percentile_ms(result, 99),
    }


def settled(measures: Measures) -> bool:
    """Tell whether the shares stand still at a point."""
    return measures["swing"].mean < SETTLED


class Reach(NamedTuple):
    """How far one thing may go from its default before the law oscillates.

    `last_settled` is the farthest value up to which every one settled, None when the default itself
    oscillates; `first_unsettled` the next one, None when the map ends first.
    """

    last_settled: float | None
    first_unsettled: float | None

    def __str__(self) -> str:
        if self.last_settled is None:
            return "oscillates from the start"
        if self.first_unsettled is None:
            return f"{self.last_settled:g} (the map's end)"
        return f"{self.last_settled:g} (not {self.first_unsettled:g})"


def reach(points: Points, starts: Sequence[StabilityTrial], along: str, *, upwards: bool = True) -> Reach:
    """Walk along one field, from trials that are alike there, until a value does not settle for all."""
    default = getattr(starts[0], along)
    row: dict[float, bool] = {}
    for trial, measures in points.items():
        if replace(trial, **{along: default}) in starts:
            value = getattr(trial, along)
            if value >= default if upwards else value <= default:
                row[value] = row.get(value, True) and settled(measures)
    last = None
    for value in sorted(row, reverse=not upwards):
        if not row[value]:
            return Reach(last, value)
        last = value
    return Reach(last, None)


def load_reach(points: Points, variant: Variant) -> Reach:
    """Return up to which load a law settles as shipped, from the smallest on."""
    smallest = min(trial.load for trial in points if trial.variant == variant.name)
    return reach(points, [default_trial(variant, smallest)], "load")


def page(maps: Maps, runs: Runs, command: str, plot: str | None) -> str:
    """Return the defaults' margins, and what the laws do where they are at home."""
    points = averaged(runs)
    values = {
        "command": command, "plot": plot, "settled": f"{100 * SETTLED:.0f}", "planned": HIGHEST_PLANNED,
        "busy": BUSY, "papers_edge": PAPERS_EDGE,
        "margins": markdown(table(VARIANTS, _margins(maps, points))),
        "shipped": markdown(table(VARIANTS, _as_shipped(points))),
    }  # fmt: skip
    return render_file(Path(__file__).with_name("stability_page.md"), values)


def _margins(maps: Maps, points: Points) -> list[Column[Variant]]:
    over_load = {trial: points[trial] for trial in maps["load-delay"]}

    def late(variant: Variant, along: str) -> str:
        last = load_reach(over_load, variant).last_settled
        if last is None:
            return str(Reach(None, None))
        home = {trial.load for trial in over_load if trial.load <= min(last, HIGHEST_PLANNED)}
        return str(reach(points, [default_trial(variant, load) for load in home], along))

    def alone(variant: Variant, along: str, *, upwards: bool) -> Reach:
        return reach(points, [default_trial(variant, variant.gain_load)], along, upwards=upwards)

    def gain(variant: Variant) -> str:
        knob = variant.knob
        if knob is None:
            return "no knob"
        return f"{knob.name}: {alone(variant, 'knob', upwards=not knob.higher_is_slower)}"

    return [
        Column("law", lambda variant: variant.title, "left"),
        Column("settles up to load", lambda variant: str(load_reach(over_load, variant)), "left"),
        Column("there, all messages late by ticks", lambda variant: late(variant, "delay_ticks"), "left"),
        Column("there, samples alone late by ticks", lambda variant: late(variant, "mismatch_ticks"), "left"),
        Column("T up, s", lambda variant: str(alone(variant, "interval_s", upwards=True)), "left"),
        Column("T down, s", lambda variant: str(alone(variant, "interval_s", upwards=False)), "left"),
        Column("more gain", gain, "left"),
    ]


def _as_shipped(points: Points) -> list[Column[Variant]]:
    def at(variant: Variant, measure: str) -> Interval:
        return points[default_trial(variant, BUSY)][measure]

    def percent(interval: Interval) -> str:
        return plus_minus(100 * interval.mean, 100 * interval.half_width, 1)

    return [
        Column("law", lambda variant: variant.title, "left"),
        Column("swing, %", lambda variant: percent(at(variant, "swing"))),
        Column("at the wrong server, %", lambda variant: percent(at(variant, "misplaced"))),
        Column("p99, ms", lambda variant: f"{at(variant, 'p99_ms').mean:,.0f}"),
    ]
