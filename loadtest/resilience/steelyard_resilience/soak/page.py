"""The outcome of a soak in words: the line while it runs, the tables. Pure but for reading judged.md."""

from collections.abc import Callable, Mapping
from pathlib import Path

from steelyard_loadtest.reporting.markdown import Column, bullets, document, image, markdown, table
from steelyard_loadtest.reporting.wording import KB, MB, clock
from steelyard_loadtest.templates import render_file

from steelyard_resilience.soak import leaks
from steelyard_resilience.soak.leaks import COUNTS, FIGURES, Check, Growth, Row, Verdict
from steelyard_resilience.soak.readings import Soaked
from steelyard_resilience.soak.timetable import Plan


def describe(soaked: Soaked) -> str:
    """Return a line with the soak's progress and failures."""
    failed = sum(soaked.failures.values())
    refused = f", {len(soaked.refused):,} REFUSED" if soaked.refused else ""
    return (
        f"{clock(soaked.at_s)} of {clock(soaked.seconds)} · {soaked.sent:,} requests, {failed:,} failed · "
        f"{soaked.steps:,} steps{refused}"
    )


def summary(soaked: Soaked, verdict: Verdict) -> str:
    """Return a line with the outcome."""
    failed = sum(soaked.failures.values())
    bad = sum(not row.passed for row in verdict.rows) + sum(not check.passed for check in verdict.checks)
    result = "PASS: nothing leaked" if verdict.passed else f"FAIL: {bad} of the figures"
    reloads = f"{len(soaked.reloads)} reloads; {'interrupted' if soaked.interrupted else result}"
    return (
        f"{clock(soaked.at_s)} minutes, {soaked.sent:,} requests, {failed:,} failed, "
        f"{soaked.steps:,} steps of churn, {reloads}"
    )


def page(
    soaked: Soaked, verdict: Verdict, plan: Plan, conditions: Mapping[str, str], plot: str | None
) -> str:
    """Return the whole section of a page."""
    return document(
        f"**{summary(soaked, verdict)}**",
        image("Memory and descriptors of every judged process over the soak", plot),
        markdown(table(verdict.checks, CHECKS)),
        markdown(table(verdict.rows, ROWS)),
        render_file(Path(__file__).with_name("judged.md"), {"leaks": leaks, "seconds": plan.seconds}),
        bullets(conditions),
    )


def _process(row: Row) -> str:
    return f"{row.process} (worst of {row.lives})" if row.lives > 1 else row.process


def _amount(figure: str, value: float) -> str:
    return f"{value:,.0f}" if figure in COUNTS else f"{value / MB:,.1f} MB"


def _gained(figure: str, value: float) -> str:
    return f"{value:+,.0f}" if figure in COUNTS else f"{value / KB:+,.0f} kB"


def _rate(figure: str, per_hour: float) -> str:
    return f"{per_hour:+,.0f}/h" if figure in COUNTS else f"{per_hour / MB:+,.1f} MB/h"


def _smallest(row: Row, span_s: float) -> str:
    per_s = row.bound / span_s
    return f"{per_s * 60:,.1f}/min" if row.figure in COUNTS else f"{per_s / KB:,.1f} kB/s"


SHORT_LIVED = f"FAIL: no process lived {leaks.JUDGED_LEAST_S:.0f} s"


def _pass(passed: bool) -> str:
    return "PASS" if passed else "FAIL"


CHECKS = (
    Column[Check]("at the end", lambda check: check.requirement, "left"),
    Column[Check]("found", lambda check: check.finding, "left"),
    Column[Check]("", lambda check: _pass(check.passed), "left"),
)


def _grown(heading: str, text: Callable[[Row, Growth], str]) -> Column[Row]:
    return Column(heading, lambda row: text(row, row.growth) if row.growth else None, "left")


ROWS = (
    Column[Row]("process", _process, "left"),
    Column[Row]("figure", lambda row: FIGURES[row.figure], "left"),
    _grown("begin", lambda row, growth: _amount(row.figure, growth.begin)),
    _grown("end", lambda row, growth: _amount(row.figure, growth.end)),
    _grown("trend", lambda row, growth: _rate(row.figure, growth.trend / growth.span_s * 3600)),
    _grown("growth", lambda row, growth: _gained(row.figure, growth.by(row.figure))),
    Column[Row]("may grow", lambda row: _gained(row.figure, row.bound), "left"),
    _grown("would show", lambda row, growth: _smallest(row, growth.span_s)),
    Column[Row]("", lambda row: _pass(row.passed) if row.growth else SHORT_LIVED, "left"),
)
