"""The report before it is Markdown or HTML: what stands in it, in which order. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from steelyard_loadtest.lab.figures.definitions import DEFINITIONS
from steelyard_loadtest.lab.report import cell_tables, choice, source_tables, verdict_table, wording
from steelyard_loadtest.lab.report.remarks import remarks
from steelyard_loadtest.lab.report.table import Line, Table
from steelyard_loadtest.lab.report.view import View
from steelyard_loadtest.lab.results import Results
from steelyard_loadtest.lab.scenario.model import Scenario

Role = Literal["verdict", "p99", "load", "distribution", "time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot: its path from the report's folder, and what it shows."""

    role: Role
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
        verdict=verdict_table.table(views),
        verdict_figure=verdict_figure,
        sections=tuple(_section(view, figures.get(view.scenario.name, ())) for view in views),
        conditions=results.conditions,
        definitions=_definitions(),
    )


def _section(view: View, figures: Sequence[Figure]) -> Section:
    return Section(
        name=view.scenario.name,
        title=view.scenario.title,
        what=view.scenario.what,
        facts=_facts(view.scenario),
        warnings=tuple(remarks(view)),
        blocks=(
            *figures,
            *cell_tables.overview(view),
            *source_tables.source_tables(view),
            *_levels(view),
        ),
        missing=_missing(view),
    )


def _levels(view: View) -> list[Table]:
    shown = choice.main_level(view)
    return [
        table for level in view.levels for table in cell_tables.by_level(view, level, folded=level != shown)
    ]


def _facts(scenario: Scenario) -> dict[str, str]:
    return {
        "Source": scenario.source,
        "Servers": wording.servers_text(scenario),
        "Load": wording.load_text(scenario.load),
        "In each cell": wording.events_text(scenario.events),
        "Again": f"`{wording.command(scenario)}`",
    }


def _missing(view: View) -> Table | None:
    if not view.missing:
        return None
    return Table(
        title="Not measured",
        note="",
        head=("algorithm", "why"),
        lines=tuple(Line(cells=(wording.title(entry.algorithm), entry.why)) for entry in view.missing),
        words=2,
    )


def _definitions() -> Table:
    return Table(
        title="What the figures are",
        note="The first column is the name in results.csv.",
        head=("column", "here", "unit", "definition"),
        lines=tuple(
            Line(cells=(f"`{entry.column}`", entry.name, entry.unit, entry.meaning)) for entry in DEFINITIONS
        ),
        words=4,
    )
