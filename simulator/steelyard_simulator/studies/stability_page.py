"""The stability study's figures, the defaults' margins, and both in words and tables: Markdown and CSV. Pure.

A margin is how far one thing may go from its default before a law oscillates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from steelyard_loadtest.reporting import tables
from steelyard_loadtest.reporting.csv_text import rows_text
from steelyard_loadtest.reporting.markdown import document, image
from steelyard_loadtest.reporting.statistics import Interval
from steelyard_loadtest.reporting.tables import Column
from steelyard_loadtest.reporting.wording import plus_minus

from steelyard_simulator.model import Case, RunResult
from steelyard_simulator.studies.measures import (
    MEASURE_COLUMNS,
    Figures,
    Measures,
    capacities,
    measure_rows,
    misplaced,
    percentile_ms,
    shares,
    swing,
)
from steelyard_simulator.studies.stability_grid import (
    BUSY,
    BY_NAME,
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

UNITS = {"swing": "part of traffic", "misplaced": "part of traffic", "p99_ms": "ms"}

HEAD = ("map", "law", "parameters", "load", "delay_ticks", "mismatch_ticks", "interval_s", "knob", "settled")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far one thing may go from its default before the law oscillates.

    `last_settled` is the farthest value up to which every one settled, None when the default itself
    oscillates; `first_unsettled` the next one, None when the map ends first.
    """

    last_settled: float | None
    first_unsettled: float | None

    @property
    def order(self) -> tuple[float, float]:
        """Sort the reach that ends first before others; one that only the map ends is beyond all."""
        return (
            inf if self.first_unsettled is None else self.first_unsettled,
            -inf if self.last_settled is None else self.last_settled,
        )

    def __str__(self) -> str:
        if self.last_settled is None:
            return "oscillates from the start"
        if self.first_unsettled is None:
            return f"{self.last_settled:g} (the map's end)"
        return f"{self.last_settled:g} (not {self.first_unsettled:g})"


def reach(points: Points, start: StabilityTrial, along: str, *, upwards: bool = True) -> Reach:
    """Walk from a trial along one of its fields, the others as they are, until a value does not settle."""
    default = getattr(start, along)
    row = {
        getattr(trial, along): settled(measures)
        for trial, measures in points.items()
        if replace(trial, **{along: default}) == start
    }
    last: float | None = None
    for value in sorted(row, reverse=not upwards):
        if value < default if upwards else value > default:
            continue
        if not row[value]:
            return Reach(last_settled=last, first_unsettled=value)
        last = value
    return Reach(last_settled=last, first_unsettled=None)


def gain_reach(points: Points, variant: Variant) -> Reach | None:
    """Return how far the gain may be raised from its default; None for a law without a knob."""
    if variant.knob is None:
        return None
    start = default_trial(variant, variant.gain_load)
    return reach(points, start, "knob", upwards=not variant.knob.higher_is_slower)


def load_reach(points: Points, variant: Variant) -> Reach:
    """Return up to which load a law settles as shipped, from the smallest on."""
    smallest = min(trial.load for trial in points if trial.variant == variant.name)
    return reach(points, default_trial(variant, smallest), "load")


def stability_csv(maps: Maps, points: Points) -> str:
    """Return every point and measure: the same for the same seeds."""
    return rows_text(
        (*HEAD, *MEASURE_COLUMNS),
        [
            (*_head(name, trial, settled(points[trial])), *row)
            for name, trials in maps.items()
            for trial in trials
            for row in measure_rows(points[trial], UNITS)
        ],
        digits=6,
    )


def _head(name: str, trial: StabilityTrial, settled: bool) -> tuple[object, ...]:
    variant = BY_NAME[trial.variant]
    parameters = variant.parameters_at(trial.knob)
    text = " ".join(f"{key}={value:g}" for key, value in parameters.items())
    return (
        name, variant.law, text, trial.load, trial.delay_ticks, trial.mismatch_ticks, trial.interval_s,
        trial.knob, int(settled),
    )  # fmt: skip


def page(maps: Maps, points: Points, command: str, plot: str | None) -> str:
    """Return the defaults' margins, and what the laws do where they are at home."""
    return document(
        f"From the model: `{command}`. Settled: the shares' swing in the last third of a run is below "
        f"{100 * SETTLED:.0f} % of all traffic. Figures: means of the seeds ± half of their 95 % interval.",
        image("Heat maps of the swing, a column for each law", plot),
        "**Margins of the defaults**: how far each thing may go, alone, until the law oscillates. Lateness: "
        f"at the loads at which the law settles as shipped, up to {HIGHEST_PLANNED:g}. T and gain: at load "
        f"{BUSY:g}, of the paper's law at {PAPERS_EDGE:g}.",
        tables.markdown(tables.table(VARIANTS, _margins(maps, points))),
        f"**As shipped, at load {BUSY:g}**",
        tables.markdown(tables.table(VARIANTS, _as_shipped(points))),
    )


def _margins(maps: Maps, points: Points) -> list[Column[Variant]]:
    over_load = {trial: points[trial] for trial in maps["load-delay"]}

    def late(variant: Variant, along: str) -> str:
        last = load_reach(over_load, variant).last_settled
        loads = sorted({trial.load for trial in over_load})
        reaches = [
            reach(points, default_trial(variant, load), along)
            for load in loads
            if last is not None and load <= min(last, HIGHEST_PLANNED)
        ]
        never = Reach(last_settled=None, first_unsettled=None)
        return str(min(reaches, key=lambda each: each.order, default=never))

    def interval(variant: Variant, *, upwards: bool) -> str:
        return str(reach(points, default_trial(variant, variant.gain_load), "interval_s", upwards=upwards))

    def gain(variant: Variant) -> str:
        reach, knob = gain_reach(points, variant), variant.knob
        return "no knob" if knob is None else f"{knob.name}: {reach}"

    return [
        Column("law", lambda variant: variant.title, "left"),
        Column("settles up to load", lambda variant: str(load_reach(over_load, variant)), "left"),
        Column("there, all messages late by ticks", lambda variant: late(variant, "delay_ticks"), "left"),
        Column("there, samples alone late by ticks", lambda variant: late(variant, "mismatch_ticks"), "left"),
        Column("T up, s", lambda variant: interval(variant, upwards=True), "left"),
        Column("T down, s", lambda variant: interval(variant, upwards=False), "left"),
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
