"""The report before it is Markdown: what stands in it, in which order, with which warnings. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from steelyard_loadtest.compare.page import scenario_tables, scenario_text, verdict_table
from steelyard_loadtest.compare.page.view import View, main_level
from steelyard_loadtest.figures.columns import DEFINITIONS
from steelyard_loadtest.figures.summary import Summary
from steelyard_loadtest.figures.verdict import FAILURES_AT_MOST
from steelyard_loadtest.measurements.trials import Missing, Results
from steelyard_loadtest.reporting import wording
from steelyard_loadtest.reporting.tables import Column, Table, table, text_columns

BUSY = 0.8
"""A generator that uses more of its one core makes requests wait for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot: its path from the report's folder, and what it shows."""

    path: str
    alt: str
    caption: str
    kind: Literal["figure"] = "figure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A scenario; blocks in the order in which they are read."""

    name: str
    title: str
    what: str
    facts: Mapping[str, str]
    warnings: tuple[str, ...]
    blocks: tuple[Table | Figure, ...]
    missing: Table | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The whole report."""

    headline: str
    interrupted: bool
    verdict: Table
    verdict_figure: Figure | None
    sections: tuple[Section, ...]
    conditions: Mapping[str, str]
    definitions: Table


def document(
    results: Results,
    views: Sequence[View],
    verdict_figure: Figure | None,
    figures: Mapping[str, Sequence[Figure]],
) -> Document:
    """Put the report together; `figures` are the plots that were drawn, by scenario."""
    return Document(
        headline=verdict_table.headline(views),
        interrupted=results.interrupted,
        verdict=verdict_table.targets(views),
        verdict_figure=verdict_figure,
        sections=tuple(_section(view, figures.get(view.scenario.name, ())) for view in views),
        conditions=results.conditions,
        definitions=text_columns(
            ("column", "here", "unit", "definition"),
            [(f"`{entry.column}`", entry.name, entry.unit, entry.meaning) for entry in DEFINITIONS],
            left=4,
            title="What the figures are",
            note="The first column is the name in results.csv.",
        ),
    )


def _section(view: View, figures: Sequence[Figure]) -> Section:
    scenario, shown = view.scenario, main_level(view)
    levels = [scenario_tables.by_level(view, level, folded=level != shown) for level in view.levels]
    return Section(
        name=scenario.name,
        title=scenario.title,
        what=scenario.what,
        facts={
            "Source": scenario.source,
            "Servers": scenario_text.servers_text(scenario),
            "Load": scenario_text.load_text(scenario.load),
            "In each trial": scenario_text.events_text(scenario.events),
            "Again": f"`{scenario_text.command(scenario)}`",
        },
        warnings=tuple(remarks(view)),
        blocks=(
            *figures,
            *scenario_tables.overview(view),
            *scenario_tables.source_tables(view),
            *chain.from_iterable(levels),
        ),
        missing=table(view.missing, MISSING, title="Not measured") if view.missing else None,
    )


def remarks(view: View) -> list[str]:
    """Return the warnings of a scenario."""
    if not view.measured:
        return ["Nothing was measured."]
    return [*_unfinished(view), *_single(view), *_busy_generator(view), *_failures(view)]


def _unfinished(view: View) -> Iterator[str]:
    load = view.scenario.load
    there = {(entry.trial.algorithm, entry.trial.level, entry.trial.repeat) for entry in view.measured}
    missing = {entry.algorithm for entry in view.missing}
    wanted = [name for name in view.scenario.algorithms if name not in missing]
    planned = len(wanted) * len(load.levels) * load.repeats
    measured = sum(name not in missing for name, _, _ in there)
    if measured < planned:
        yield f"Unfinished: {measured} of {planned} trials are measured."


def _single(view: View) -> Iterator[str]:
    if view.repeats == 1:
        yield (
            "One repeat: there is no deviation, and differences of some ten percent may be noise."
            " Full scenarios repeat."
        )


def _busy_generator(view: View) -> Iterator[str]:
    for where, found in _by_level(view):
        used = {entry.algorithm: entry.metrics.get("generator_cpu_utilization") for entry in found}
        busy = [
            scenario_text.title(name) for name, spread in used.items() if spread and spread.highest > BUSY
        ]
        if busy:
            yield (
                f"At {where} the generator used over {BUSY:g} of a core"
                f" with {wording.sentence(busy)}: part of what was measured may be its own queue."
            )


def _failures(view: View) -> Iterator[str]:
    for where, found in _by_level(view):
        failed = [
            f"{scenario_text.title(entry.algorithm)} ({wording.small_percent(entry.failures_part)})"
            for entry in found
            if entry.failures_part > FAILURES_AT_MOST
        ]
        if failed:
            yield (
                f"At {where} over {FAILURES_AT_MOST * 100:g} % of the requests failed with"
                f" {wording.sentence(failed)}; latencies are of those that succeeded."
            )


def _by_level(view: View) -> Iterator[tuple[str, list[Summary]]]:
    return ((scenario_text.level(view.scenario.load, level), view.at(level)) for level in view.levels)


MISSING = (
    Column[Missing]("algorithm", lambda entry: scenario_text.title(entry.algorithm), "left"),
    Column[Missing]("why", lambda entry: entry.why, "left"),
)
