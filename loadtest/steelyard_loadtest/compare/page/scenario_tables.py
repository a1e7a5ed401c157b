"""A scenario's tables: p99 over the levels, and the rest for each level. Pure."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.view import View
from steelyard_loadtest.figures.columns import DEFINITIONS
from steelyard_loadtest.figures.trial_figures import Summary
from steelyard_loadtest.figures.verdict import FAILURES_AT_MOST
from steelyard_loadtest.reporting import wording
from steelyard_loadtest.reporting.markdown import Column, Table, table, without_empty_columns
from steelyard_loadtest.scenario.algorithms import DEFAULT
from steelyard_loadtest.scenario.definition import Mark

SHARES_OF = 5
"""With more servers the shares are in servers.csv and in the plots."""

MARKS = (
    "Declared before anything was measured, the same for all. Medians over the repeats; ✗ is over the mark."
)

SIGMA = "Medians over the repeats; ± is their sample deviation σ."

Metric = Sequence[Any]
"""A line of layout.toml: a heading, a figure's name and, unless it has about three digits, its decimals."""


def overview(view: View) -> list[Table]:
    """Lay out p99 by algorithm and level; none for a single level, whose own table has it."""
    if len(view.levels) < 2:
        return []
    names = [name for name in view.scenario.algorithms if name in view.algorithms]
    columns = [
        Column[str]("algorithm", scenario_text.title, "left"),
        Column[str]("kind", scenario_text.kind, "left"),
        *(
            Column[str](scenario_text.level(view.scenario.load, level), partial(_p99_at, view, level))
            for level in view.levels
        ),
    ]
    note = f"{SIGMA} † over {FAILURES_AT_MOST * 100:g} % failed, and p99 is of the rest."
    return [table(names, columns, title="p99 in ms at each level", note=note, bold=DEFAULT.__eq__)]


def by_level(view: View, level: float, *, folded: bool) -> list[Table]:
    """Return the tables of one level: latency, balance, and failures if there were any."""
    best_first = sorted(view.at(level), key=_by_p99)
    where = scenario_text.level(view.scenario.load, level)
    shown = scenario_text.LAYOUT["by_level"]
    names = [] if view.scenario.static else [server.name for server in view.scenario.servers]
    shares = [
        Column[Summary](f"{name} share", partial(_share_text, name))
        for name in (names if len(names) <= SHARES_OF else [])
    ]
    latency = _table(
        best_first,
        [NAME, KIND, P99, *_medians(shown["latency"]), FAILED],
        title=f"Latency at {where}",
        note=SIGMA,
    )
    balance = _table(
        best_first,
        [NAME, KIND, *shares, *_medians(shown["balance"])],
        title=f"Balance and cost at {where}",
        note="Medians over the repeats, shares of all together; Jain's index is of CPU utilization.",
    )
    phases = next((list(one.trials[0].phases_p99_ms) for one in best_first), [])
    by_phase = _table(
        best_first,
        [NAME, KIND, *(Column[Summary](f"{name} s", partial(_phase_p99, name)) for name in phases)],
        title=f"p99 in ms in each phase at {where}",
        note="For the requests due between two events; medians over the repeats.",
    )
    judged = []
    if view.scenario.marks:
        columns = [NAME, KIND, *_marks(view.scenario.marks)]
        judged = [_table(best_first, columns, title=f"Pass marks at {where}", note=MARKS)]
    tables = [replace(without_empty_columns(each), folded=folded) for each in (latency, by_phase, balance)]
    failed = [summary for summary in view.at(level) if summary.failures_part > 0]
    if failed:
        columns = [NAME, FAILED, FAILURES, KINDS]
        tables.append(_table(failed, columns, title=f"Failures at {where}", note="Sums over all repeats."))
    return [each for each in (*judged, *tables) if len(each.head) > 2]


def _table(
    summaries: Sequence[Summary], columns: Sequence[Column[Summary]], *, title: str, note: str
) -> Table:
    return table(summaries, columns, title=title, note=note, bold=lambda one: one.algorithm == DEFAULT)


def _medians(metrics: Sequence[Metric]) -> list[Column[Summary]]:
    def column(heading: str, metric: str, *digits: int) -> Column[Summary]:
        return Column(heading, lambda one: scenario_text.median(one.metrics.get(metric), *digits))

    return [column(*metric) for metric in metrics]


def _marks(marks: Mapping[Mark, float]) -> list[Column[Summary]]:
    """Return a column for each mark, and one for all of them."""

    def text(mark: Mark, most: float, one: Summary) -> str:
        value = scenario_text.median(one.metrics.get(mark))
        return value if _holds(one, mark, most) else f"{value} ✗"

    def passes(one: Summary) -> str:
        return "passes" if all(_holds(one, mark, most) for mark, most in marks.items()) else "fails"

    columns = [
        Column[Summary](f"{DEFINITIONS[mark][0]}, at most {most:g}", partial(text, mark, most))
        for mark, most in marks.items()
    ]
    return [*columns, Column[Summary]("", passes, "left")]


def _holds(summary: Summary, mark: Mark, most: float) -> bool:
    known = summary.metrics.get(mark)
    return known is not None and known.median <= most


def _p99(summary: Summary) -> str:
    return scenario_text.with_sigma(summary.metrics.get("p99_ms"))


def _phase_p99(phase: str, summary: Summary) -> str:
    known = [trial.phases_p99_ms.get(phase) for trial in summary.trials]
    measured = [ms for ms in known if ms is not None]
    return wording.number(statistics.median(measured) if measured else None)


def _p99_at(view: View, level: float, algorithm: str) -> str | None:
    summary = view.find(algorithm, level)
    if summary is None:
        return None
    return _p99(summary) + (" †" if summary.failures_part > FAILURES_AT_MOST else "")


def _kinds(summary: Summary) -> str | None:
    kinds: Counter[str] = Counter()
    for trial in summary.trials:
        kinds.update(trial.measured.outcome.kinds)
    return ", ".join(f"{kind}: {count:,}" for kind, count in kinds.most_common()) or None


def _share_text(server: str, summary: Summary) -> str:
    served = [
        (trial.shares[server], trial.measured.outcome.requests)
        for trial in summary.trials
        if server in trial.shares
    ]
    requests = sum(count for _, count in served)
    share = sum(share * count for share, count in served) / requests if requests else None
    return wording.small_percent(share)


def _by_p99(summary: Summary) -> tuple[bool, float]:
    """Return the order of a level's lines: the best tail first, those with failed requests after the rest."""
    p99_ms = summary.metrics.get("p99_ms")
    return (
        p99_ms is None or summary.failures_part > FAILURES_AT_MOST,
        p99_ms.median if p99_ms else float("inf"),
    )


NAME = Column[Summary]("algorithm", lambda one: scenario_text.title(one.algorithm), "left")
KIND = Column[Summary]("kind", lambda one: scenario_text.kind(one.algorithm), "left")
P99 = Column[Summary]("p99 ms", _p99)
FAILED = Column[Summary]("failed", lambda one: wording.small_percent(one.failures_part, 2))
FAILURES = Column[Summary]("failures", lambda one: f"{one.failures:,}")
KINDS = Column[Summary]("by kind", _kinds)
