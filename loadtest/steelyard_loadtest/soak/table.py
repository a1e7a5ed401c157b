"""The verdict as Markdown, which is read in a terminal as well. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from steelyard_loadtest.soak.bounds import COMPILING, HISTORY_S, JUDGED_LEAST_S, NGINX, PYTHON
from steelyard_loadtest.soak.plan import Plan
from steelyard_loadtest.soak.records import Soaked
from steelyard_loadtest.soak.verdict import Row, Verdict
from steelyard_loadtest.soak.wording import amount, clock, grown, rate, smallest

ABSENT = "–"
HEAD = ("process", "figure", "begin", "end", "trend", "growth", "may grow", "would show", "")


def summary(soaked: Soaked, verdict: Verdict) -> str:
    """Say in a line what came of it."""
    failed = sum(soaked.failures.values())
    last_s = soaked.overviews[-1].at_s if soaked.overviews else 0.0
    bad = sum(not row.passed for row in verdict.rows) + sum(not check.passed for check in verdict.checks)
    said = (
        "interrupted"
        if soaked.interrupted
        else "PASS: nothing leaked"
        if verdict.passed
        else f"FAIL: {bad} of the figures"
    )
    return (
        f"{clock(last_s)} minutes, {soaked.sent:,} requests, {failed:,} failed, "
        f"{soaked.steps:,} steps of churn, {len(soaked.reloads)} reloads; {said}"
    )


def report(
    soaked: Soaked, verdict: Verdict, plan: Plan, conditions: Mapping[str, str], plot: str | None
) -> str:
    """Return all of it as a section."""
    parts = [f"**{summary(soaked, verdict)}**"]
    if plot:
        parts.append(f"![Memory, descriptors, requests in flight and stores over the soak]({plot})")
    if verdict.checks:
        lines = [(check.what, check.found, _word(check.passed)) for check in verdict.checks]
        parts.append(_markdown(("at the end", "found", ""), lines))
    if verdict.rows:
        parts += [_markdown(HEAD, [_line(row) for row in verdict.rows]), _explained(plan)]
    parts.append("\n".join(f"- {name}: {text}" for name, text in conditions.items()))
    return "\n\n".join(parts) + "\n"


def _line(row: Row) -> tuple[str, ...]:
    process = f"{row.process} (worst of {row.lives})" if row.lives > 1 else row.process
    found, bound = row.found, grown(row.figure, row.bound)
    if found is None or row.grown is None:
        return (
            process,
            row.figure,
            *[ABSENT] * 4,
            bound,
            ABSENT,
            f"FAIL: no process lived {JUDGED_LEAST_S:.0f} s",
        )
    return (
        process,
        row.figure,
        amount(row.figure, found.begin),
        amount(row.figure, found.end),
        rate(row.figure, found.trend_per_hour),
        grown(row.figure, row.grown),
        bound,
        smallest(row.figure, row.bound / found.span_s),
        _word(row.passed),
    )


def _explained(plan: Plan) -> str:
    others_s, workers_s = (may.warm_after_s(plan.seconds) for may in (PYTHON, COMPILING))
    return (
        f"Judged is each process from {others_s:.0f} s after it was first seen (nginx's workers: "
        f"{workers_s:.0f} s) until the load's end. *begin* and *end* are the medians of the first and the "
        "last fifth of that; *trend* is Theil and Sen's slope; *growth* is the larger of the trend over "
        "the whole and of end − begin, for descriptors and threads the smaller; *would show* is the "
        "smallest steady leak that would not have passed. Memory is private (heap and stacks): the shared "
        f"dict is of a fixed size. What may grow: {NGINX.why}. {PYTHON.why}. Redis is judged once its "
        f"history is full, {HISTORY_S / 60:.0f} minutes after the start; before, it grows by design."
    )


def _word(passed: bool) -> str:
    return "PASS" if passed else "FAIL"


def _markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, *lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    laid = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    return "\n".join([laid[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *laid[1:]])
