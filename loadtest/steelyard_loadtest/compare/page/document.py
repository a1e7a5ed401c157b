"""The page as GitHub's Markdown, from its parts (template report.md). Pure but for reading that."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from steelyard_loadtest.compare.page import scenario_tables, scenario_text
from steelyard_loadtest.compare.page.fleet_tables import answers, fleet_tables
from steelyard_loadtest.compare.page.view import View, main_level
from steelyard_loadtest.figures.columns import DEFINITIONS
from steelyard_loadtest.figures.verdict import FAILURES_AT_MOST, Rival, Verdict
from steelyard_loadtest.measurements.trials import Missing, Results
from steelyard_loadtest.reporting import wording
from steelyard_loadtest.reporting.markdown import (
    Column,
    Table,
    bullets,
    document,
    markdown,
    plain,
    table,
    text_columns,
    without_empty_columns,
)
from steelyard_loadtest.scenario.algorithms import BY_NAME, DEFAULT
from steelyard_loadtest.templates import render_file

Judged = tuple[View, Verdict]


def headline(views: Sequence[View]) -> str:
    """Summarize the target for p99 in one sentence."""
    standings = Counter(verdict.standing for view in views for verdict in view.verdicts)
    judged = standings["met"] + standings["missed"] + standings["failed"]
    if not judged:
        return f"Nothing to judge: {BY_NAME[DEFAULT].title} and an online peer were not measured together."
    parts = [f"met at {standings['met']} of {judged} levels of load"]
    if standings["missed"]:
        parts.append(f"missed at {standings['missed']}")
    if standings["failed"]:
        parts.append(f"at {standings['failed']} too many of our requests failed")
    return f"The target is {wording.sentence(parts)}."


def targets(views: Sequence[View]) -> Table:
    """Lay out every verdict: ours, the best online peer, and the best informed balancer."""
    judged = [(view, verdict) for view in views for verdict in view.verdicts]
    note = scenario_text.LAYOUT["target"]["meaning"].format(failures=FAILURES_AT_MOST * 100)
    return without_empty_columns(table(judged, COLUMNS, title="Target", note=note))


def standing(verdict: Verdict) -> str:
    """Write how the target stands."""
    if verdict.standing == "failed":
        return f"failed: {wording.small_percent(verdict.failures_part, 2)} of ours failed"
    if verdict.standing == "no peer":
        return "no peer kept its failures low"
    noise = verdict.online is not None and verdict.online.within_noise
    return verdict.standing + (", within the noise" if noise else "")


def _name(rival: Rival | None) -> str | None:
    return scenario_text.title(rival.algorithm) if rival else None


def _p99(rival: Rival | None) -> str:
    return scenario_text.median(rival.p99_ms if rival else None)


def _ratio(rival: Rival | None) -> str:
    return wording.ratio(rival.ratio if rival else None)


COLUMNS = (
    Column[Judged]("scenario", lambda line: line[0].scenario.name, "left"),
    Column[Judged]("level", lambda line: scenario_text.level(line[0].scenario.load, line[1].level), "left"),
    Column[Judged]("target", lambda line: standing(line[1]), "left"),
    Column[Judged]("best online peer", lambda line: _name(line[1].online), "left"),
    Column[Judged]("best informed", lambda line: _name(line[1].informed), "left"),
    Column[Judged]("ours p99 ms", lambda line: scenario_text.median(line[1].p99_ms)),
    Column[Judged]("its p99 ms", lambda line: _p99(line[1].online)),
    Column[Judged]("ratio", lambda line: _ratio(line[1].online)),
    Column[Judged]("informed p99 ms", lambda line: _p99(line[1].informed)),
    Column[Judged]("ratio to informed", lambda line: _ratio(line[1].informed)),
)

BUSY = 0.8
"""A generator that uses more of its one core makes requests wait for itself."""


UNSURE = 0.1
"""Servers at 60 % of the capacity are at 54 to 66 % then, which changes a p99 by more than its noise."""


def page_text(results: Results, views: Sequence[View], figures: Mapping[str, Sequence[str]]) -> str:
    """Put the page together; `figures` are the drawn plots, in Markdown, by scenario."""
    definitions = text_columns(
        ("column", "here", "unit", "definition"),
        [(f"`{column}`", *definition) for column, definition in DEFINITIONS.items()],
        left=4,
        title="Columns",
        note="The first column is the name of the column in results.csv.",
    )
    values = {
        "headline": " ".join([*(answer for view in views for answer in answers(view)), headline(views)]),
        "interrupted": results.interrupted, "targets": titled(targets(views)),
        "conditions": _bullets(results.conditions), "definitions": titled(definitions),
        "sections": [_section(view, figures.get(view.scenario.name, ())) for view in views],
    }  # fmt: skip
    return render_file(Path(__file__).with_name("report.md"), values)


def titled(shown: Table) -> str:
    """Write a table under its title and its note; a folded one opens on demand."""
    title = plain(shown.title)
    heading = f"<details><summary>{title}</summary>" if shown.folded else f"#### {title}"
    return document(heading, plain(shown.note), markdown(shown), "</details>" if shown.folded else None)


def blocks(view: View) -> list[Table]:
    """Return the tables of a scenario, in reading order."""
    shown = main_level(view)
    return [
        *fleet_tables(view),
        *scenario_tables.overview(view),
        *(
            block
            for level in view.levels
            for block in scenario_tables.by_level(view, level, folded=level != shown)
        ),
        *([table(view.missing, MISSING, title="Not measured")] if view.missing else []),
    ]


def _section(view: View, figures: Sequence[str]) -> str:
    scenario = view.scenario
    facts = {
        "Source": scenario.source,
        "Servers": scenario_text.servers_text(scenario),
        "Load": scenario_text.load_text(scenario.load),
        **({"Capacity": str(view.capacity)} if view.capacity else {}),
        "In each trial": scenario_text.events_text(scenario),
        "Again": f"`{scenario_text.command(scenario)}`",
    }
    return document(
        f"## {scenario.name}: {plain(scenario.title)}",
        plain(scenario.what),
        _bullets(facts),
        *(f"> {plain(remark)}" for remark in remarks(view)),
        *figures,
        *map(titled, blocks(view)),
    )


def _bullets(items: Mapping[str, str]) -> str:
    return bullets({name: plain(text) for name, text in items.items()})


def remarks(view: View) -> Iterator[str]:
    """Yield the warnings of a scenario."""
    if not view.measured:
        yield "Nothing was measured."
        return
    load = view.scenario.load
    there = {(entry.trial.algorithm, entry.trial.level, entry.trial.repeat) for entry in view.measured}
    missing = {entry.algorithm for entry in view.missing}
    wanted = [name for name in view.scenario.algorithms if name not in missing]
    planned = len(wanted) * len(load.levels) * load.repeats
    measured = sum(name not in missing for name, _, _ in there)
    if measured < planned:
        yield f"Unfinished: {measured} of {planned} trials are measured."
    if view.repeats == 1:
        yield (
            "One repeat: there is no deviation, and differences of about ten percent may be noise."
            " Full scenarios repeat."
        )
    if view.capacity and not view.capacity.by_trials and view.capacity.spread > UNSURE:
        apart = wording.percent(view.capacity.spread)
        yield (
            f"The measurements of the capacity are {apart} apart. Each level's part of the capacity is as"
            " uncertain."
        )
    for level in view.levels:
        where = scenario_text.level(load, level)
        used = {entry.algorithm: entry.metrics.get("generator_cpu_utilization") for entry in view.at(level)}
        busy = [
            scenario_text.title(name) for name, spread in used.items() if spread and spread.highest > BUSY
        ]
        if busy:
            yield (
                f"At {where} the generator used over {BUSY:g} of a core"
                f" with {wording.sentence(busy)}: part of the measured latency may be its own queue."
            )


MISSING = (
    Column[Missing]("algorithm", lambda entry: scenario_text.title(entry.algorithm), "left"),
    Column[Missing]("why", lambda entry: entry.why, "left"),
)
