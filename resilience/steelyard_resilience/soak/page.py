"""What came of a soak in words: the line while it runs, the tables, the readings as CSV. Pure."""

from collections.abc import Callable, Mapping

from steelyard_loadtest.reporting.csv_text import Field, csv_text, names_of
from steelyard_loadtest.reporting.markdown import bullets, document, image
from steelyard_loadtest.reporting.tables import Column, markdown, table
from steelyard_loadtest.reporting.wording import KB, MB, clock

from steelyard_resilience.soak import leaks
from steelyard_resilience.soak.leaks import Check, Growth, Row, Verdict
from steelyard_resilience.soak.readings import Overview, Reading, Soaked
from steelyard_resilience.soak.timetable import Plan


def describe(soaked: Soaked, grown: Mapping[str, Growth]) -> str:
    """Say in a line where the soak is, what failed, and which process's memory grew most so far."""
    at_s = soaked.overviews[-1].at_s if soaked.overviews else 0.0
    failed = sum(soaked.failures.values())
    gained = "warming up"
    if grown:
        name, most = max(grown.items(), key=lambda item: item[1].most)
        gained = f"most memory gained: {name} {_gained(leaks.MEMORY, most.most)}"
    parts = [
        f"{clock(at_s)} of {clock(soaked.seconds)}",
        f"{soaked.sent:,} requests, {failed:,} failed",
        f"{soaked.steps:,} steps" + (f", {len(soaked.refused):,} REFUSED" if soaked.refused else ""),
        gained,
    ]
    return " · ".join(parts)


def summary(soaked: Soaked, verdict: Verdict) -> str:
    """Say in a line what came of it."""
    failed = sum(soaked.failures.values())
    last_s = soaked.overviews[-1].at_s if soaked.overviews else 0.0
    bad = sum(not row.passed for row in verdict.rows) + sum(not check.passed for check in verdict.checks)
    result = "PASS: nothing leaked" if verdict.passed else f"FAIL: {bad} of the figures"
    reloads = f"{len(soaked.reloads)} reloads; {'interrupted' if soaked.interrupted else result}"
    return (
        f"{clock(last_s)} minutes, {soaked.sent:,} requests, {failed:,} failed, "
        f"{soaked.steps:,} steps of churn, {reloads}"
    )


def page(
    soaked: Soaked, verdict: Verdict, plan: Plan, conditions: Mapping[str, str], plot: str | None
) -> str:
    """Return all of it as a section."""
    return document(
        f"**{summary(soaked, verdict)}**",
        image("Memory, descriptors, requests in flight and stores over the soak", plot),
        markdown(table(verdict.checks, CHECKS)) if verdict.checks else None,
        markdown(table(verdict.rows, ROWS)) if verdict.rows else None,
        _explained(plan) if verdict.rows else None,
        bullets(conditions),
    )


def samples(soaked: Soaked) -> str:
    """Return a line a process and moment; an unknown value is empty."""
    return csv_text(soaked.readings, names_of(Reading))


def overview(soaked: Soaked) -> str:
    """Return a line a moment of the whole, with the requests in flight of each server and worker."""
    columns: list[Field[Overview]] = list(names_of(Overview, without=["in_flight"]))
    for name in sorted({name for one in soaked.overviews for name in one.in_flight}):
        columns.append((f"in flight: {name}", lambda one, name=name: one.in_flight.get(name)))  # type: ignore[misc]
    return csv_text(soaked.overviews, columns)


def _process(row: Row) -> str:
    return f"{row.process} (worst of {row.lives})" if row.lives > 1 else row.process


def _amount(figure: str, value: float) -> str:
    return f"{value:,.0f}" if figure in leaks.COUNTS else f"{value / MB:,.1f} MB"


def _rate(figure: str, per_hour: float) -> str:
    return f"{per_hour:+,.0f}/h" if figure in leaks.COUNTS else f"{per_hour / MB:+,.1f} MB/h"


def _gained(figure: str, value: float) -> str:
    return f"{value:+,.0f}" if figure in leaks.COUNTS else f"{value / KB:+,.0f} kB"


def _smallest(row: Row, span_s: float) -> str:
    per_s = row.bound / span_s
    return f"{per_s * 60:,.1f}/min" if row.figure in leaks.COUNTS else f"{per_s / KB:,.1f} kB/s"


def _pass(passed: bool) -> str:
    return "PASS" if passed else "FAIL"


def _word(row: Row) -> str:
    return _pass(row.passed) if row.growth else f"FAIL: no process lived {leaks.JUDGED_LEAST_S:.0f} s"


CHECKS = (
    Column[Check]("at the end", lambda check: check.what, "left"),
    Column[Check]("found", lambda check: check.told, "left"),
    Column[Check]("", lambda check: _pass(check.passed), "left"),
)


def _grown(heading: str, text: Callable[[Row, Growth], str]) -> Column[Row]:
    return Column(heading, lambda row: text(row, row.growth) if row.growth else None, "left")


ROWS = (
    Column[Row]("process", _process, "left"),
    Column[Row]("figure", lambda row: row.figure, "left"),
    _grown("begin", lambda row, growth: _amount(row.figure, growth.begin)),
    _grown("end", lambda row, growth: _amount(row.figure, growth.end)),
    _grown("trend", lambda row, growth: _rate(row.figure, growth.trend_per_hour)),
    _grown("growth", lambda row, _: _gained(row.figure, row.grown or 0.0)),
    Column[Row]("may grow", lambda row: _gained(row.figure, row.bound), "left"),
    _grown("would show", lambda row, growth: _smallest(row, growth.span_s)),
    Column[Row]("", _word, "left"),
)


def _explained(plan: Plan) -> str:
    others_s, workers_s = (may.warm_after_s(plan.seconds) for may in (leaks.PYTHON, leaks.COMPILING))
    return (
        f"Judged is each process from {others_s:.0f} s after it was first seen (nginx's workers: "
        f"{workers_s:.0f} s) until the load's end. *begin* and *end* are the medians of the first and the "
        "last fifth of that; *trend* is Theil and Sen's slope; *growth* is the larger of the trend over "
        "the whole and of end − begin, for descriptors and threads the smaller; *would show* is the "
        "smallest steady leak that would not have passed. Memory is private (heap and stacks): the shared "
        f"dict is of a fixed size. What may grow: {leaks.NGINX.why}. {leaks.PYTHON.why}. Redis is judged "
        f"once its history is full, {leaks.HISTORY_S / 60:.0f} minutes after the start; before, it grows "
        "by design."
    )
