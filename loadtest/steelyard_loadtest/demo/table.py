"""The demo's table and its one-sentence findings, as text. Pure."""

from collections.abc import Mapping, Sequence

from steelyard_loadtest.demo.aggregate import Figures, Third

ABSENT = "–"


def table(phases: Mapping[str, Sequence[Third]], servers: Sequence[str]) -> str:
    """Lay out one line per phase (by title) and third, shares last."""
    head = ["", "", "requests/s", "failed", "p50 ms", "p99 ms", *servers]
    body = [
        [
            title if position == 0 else "",
            third.name,
            f"{third.figures.requests_per_s:.0f}",
            str(third.figures.failures),
            milliseconds(third.figures.p50_ms),
            milliseconds(third.figures.p99_ms),
            *(percent(third.figures.shares[server]) for server in servers),
        ]
        for title, rows in phases.items()
        for position, third in enumerate(rows)
    ]
    widths = [max(len(line[column]) for line in [head, *body]) for column in range(len(head))]
    lines = []
    for line in [head, *body]:
        cells = [cell.ljust(width) for cell, width in zip(line[:2], widths[:2], strict=True)]
        cells += [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def finding(rows: Sequence[Third], burned: str) -> str:
    """Say in one line what a phase shows: the burned server's share, and p99 before and during the burn."""
    by_name: dict[str, Figures] = {row.name: row.figures for row in rows}
    before, burning = by_name.get("before"), by_name.get("burning")
    if before is None or burning is None:
        return "interrupted before the burn"
    share = (
        f"{burned}: {percent(before.shares.get(burned))} → {percent(burning.shares.get(burned))} of requests"
    )
    return f"{share}, p99 {milliseconds(before.p99_ms)} → {milliseconds(burning.p99_ms)} ms"


def percent(part: float | None) -> str:
    """Write a part of 1 as a percentage."""
    return ABSENT if part is None else f"{part * 100:.0f} %"


def milliseconds(value: float | None) -> str:
    """Write milliseconds with as many digits as mean something."""
    if value is None:
        return ABSENT
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"
