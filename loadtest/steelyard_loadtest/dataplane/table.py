"""The figures as Markdown. Pure."""

from collections.abc import Mapping, Sequence

from steelyard_loadtest.dataplane.contenders import BASE, BY_NAME
from steelyard_loadtest.dataplane.summary import Change, Row, Spread, find
from steelyard_loadtest.dataplane.verdict import Verdict

ABSENT = "–"
MB = 1024 * 1024


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Lay out a table: the first column to the left, the others to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def overview(rows: Sequence[Row]) -> str:
    """CPU per request and its ratio, one line a contender and one column a number of servers."""
    counts = sorted({row.peers for row in rows})
    body = [
        [BY_NAME[name].title, *(_cell(find(rows, name, count)) for count in counts)]
        for name in _names(rows)
        if any(row.cpu_us for row in rows if row.contender == name)
    ]
    return markdown(["CPU µs per request (× nginx SWRR)", *(_servers(count) for count in counts)], body)


def details(rows: Sequence[Row], peers: int) -> str:
    """Everything that was measured at one number of servers."""
    head = ["", "CPU µs/request", "lowest..highest", "× nginx SWRR", "requests/s", "p50 ms", "p99 ms",
            "resident MB", "core used", "failed", "rounds"]  # fmt: skip
    body = [
        [
            BY_NAME[row.contender].title,
            number(row.cpu_us.median if row.cpu_us else None),
            _range(row.cpu_us),
            number(row.ratio, 2),
            f"{row.requests_per_s.median:,.0f}",
            number(row.p50_ms.median, 2),
            number(row.p99_ms.median, 2),
            number(None if row.resident_bytes is None else row.resident_bytes / MB, 0),
            ABSENT if row.cpu_utilization is None else f"{row.cpu_utilization:.0%}".replace("%", " %"),
            str(row.failed),
            str(row.rounds),
        ]
        for row in rows
        if row.peers == peers
    ]
    return markdown(head, body)


def reweighing(changes: Sequence[Change]) -> str:
    """The tail before and after changes of all weights."""
    head = [
        "",
        "p99 ms before",
        "p99 ms after",
        "after / before",
        "round by round",
        "slowest ms after",
        "failed",
    ]
    body = [
        [
            BY_NAME[change.contender].title + (" (nothing changes)" if change.contender == BASE else ""),
            number(change.before_ms.median, 2),
            number(change.after_ms.median, 2),
            number(change.ratio, 2),
            _range(change.ratios, 2),
            number(change.worst_ms, 1),
            str(change.failed),
        ]
        for change in changes
    ]
    return markdown(head, body)


def targets(verdicts: Sequence[Verdict]) -> str:
    """Each target, one line a picker."""
    body = [
        [
            verdict.target,
            BY_NAME[verdict.contender].method,
            number(verdict.value, 2),
            number(verdict.bound, 2),
            "met" if verdict.met else f"missed by {verdict.value / verdict.bound - 1:.0%}".replace("%", " %"),
        ]
        for verdict in verdicts
    ]
    return markdown(["target", "picker", "measured", "at most", ""], body)


def report(
    *,
    conditions: Mapping[str, str],
    rows: Sequence[Row],
    changes: Sequence[Change],
    verdicts: Sequence[Verdict],
    missing: Mapping[str, str],
    plot: str | None,
) -> str:
    """All of it as a section; `missing` says for each contender why it has no figures."""
    parts = ["\n".join(f"- {name}: {text}" for name, text in conditions.items())]
    if missing:
        parts.append("Not measured:\n\n" + "\n".join(f"- {name}: {why}" for name, why in missing.items()))
    if rows:
        parts.append(overview(rows))
    if plot and rows:
        parts.append(f"![CPU per request against the number of servers]({plot})")
    if verdicts:
        parts += ["### Targets", targets(verdicts)]
    for count in sorted({row.peers for row in rows}):
        parts += [f"### {_servers(count).capitalize()}", details(rows, count)]
    if changes:
        parts += [f"### A change of all {changes[0].peers} weights", reweighing(changes)]
    return "\n\n".join(parts) + "\n"


def number(value: float | None, digits: int = 1) -> str:
    """Write a figure; nothing known is a dash."""
    return ABSENT if value is None else f"{value:,.{digits}f}"


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.contender for row in rows))


def _servers(count: int) -> str:
    return f"{count:,} servers"


def _cell(row: Row | None) -> str:
    if row is None or row.cpu_us is None:
        return ABSENT
    return number(row.cpu_us.median) + ("" if row.ratio is None else f" ({row.ratio:.2f})")


def _range(found: Spread | None, digits: int = 1) -> str:
    return ABSENT if found is None else f"{found.lowest:.{digits}f}..{found.highest:.{digits}f}"
