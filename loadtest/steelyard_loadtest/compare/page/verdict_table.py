"""The headline: the target in every scenario. Pure."""

from collections import Counter
from collections.abc import Sequence

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.view import View
from steelyard_loadtest.figures.verdict import FAILURES_AT_MOST, Rival, Verdict
from steelyard_loadtest.reporting import wording
from steelyard_loadtest.reporting.tables import Column, Table, table, without_empty_columns
from steelyard_loadtest.scenario.algorithms import BY_NAME, DEFAULT

Judged = tuple[View, Verdict]


def headline(views: Sequence[View]) -> str:
    """Say in one sentence where the target is met."""
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
    """Lay out every verdict: ours, the best online peer, and the best that was told the weights."""
    judged = [(view, verdict) for view in views for verdict in view.verdicts]
    note = scenario_text.LAYOUT["target"]["meaning"].format(failures=FAILURES_AT_MOST * 100)
    return without_empty_columns(table(judged, COLUMNS, title="The target", note=note))


def standing(verdict: Verdict) -> str:
    """Write how the target stands."""
    if verdict.standing == "failed":
        return f"failed: {wording.small_percent(verdict.failures_part, 2)} of ours failed"
    if verdict.standing == "no peer":
        return "no peer kept its failures low"
    noise = verdict.online is not None and verdict.online.within_noise
    return verdict.standing + (", within the noise" if noise else "")


def _level(line: Judged) -> str:
    view, verdict = line
    return scenario_text.level(view.scenario.load, verdict.level)


def _name(rival: Rival | None) -> str | None:
    return scenario_text.title(rival.algorithm) if rival else None


def _p99(rival: Rival | None) -> str:
    return scenario_text.median(rival.p99_ms if rival else None)


def _ratio(rival: Rival | None) -> str:
    return wording.ratio(rival.ratio if rival else None)


COLUMNS = (
    Column[Judged]("scenario", lambda line: line[0].scenario.name, "left"),
    Column[Judged]("level", _level, "left"),
    Column[Judged]("target", lambda line: standing(line[1]), "left"),
    Column[Judged]("best online peer", lambda line: _name(line[1].online), "left"),
    Column[Judged]("best told", lambda line: _name(line[1].told), "left"),
    Column[Judged]("ours p99 ms", lambda line: scenario_text.median(line[1].p99_ms)),
    Column[Judged]("its p99 ms", lambda line: _p99(line[1].online)),
    Column[Judged]("ratio", lambda line: _ratio(line[1].online)),
    Column[Judged]("told's p99 ms", lambda line: _p99(line[1].told)),
    Column[Judged]("ratio to told", lambda line: _ratio(line[1].told)),
)
