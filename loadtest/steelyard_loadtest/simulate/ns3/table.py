"""The study's tables as Markdown and JSON-able objects. Pure."""

import math
from collections.abc import Sequence

from steelyard_loadtest.simulate.ns3.published import COLUMNS, PUBLISHED
from steelyard_loadtest.simulate.ns3.summary import Row
from steelyard_loadtest.simulate.studies.statistics import Interval

HEAD = ("Min", "Avg", "P50", "P75", "P90", "P95", "P99", "Max", "Std Dev")


def objects(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return what `--json` prints: an object per algorithm, the means over the seeds."""
    return [
        {
            "algorithm": row.algorithm,
            **{name: round(column.mean, 4) for name, column in zip(COLUMNS, row.columns, strict=True)},
            "requests_per_server": [round(requests, 2) for requests in row.requests_per_server],
        }
        for row in rows
    ]


def latencies(rows: Sequence[Row]) -> str:
    """The latencies, each of the study's algorithms followed by what the study published."""
    lines = []
    for row in rows:
        lines.append([f"`{row.algorithm}`", *(_cell(column) for column in row.columns)])
        if row.algorithm in PUBLISHED:
            figures = PUBLISHED[row.algorithm]
            lines.append(["*published, one run*", *(f"*{figure:.3f}*" for figure in figures)])
    return _markdown(["ms", *HEAD], lines)


def distribution(rows: Sequence[Row]) -> str:
    """Requests per server, and the slow server's part of them."""
    servers = len(rows[0].requests_per_server)
    head = ["requests", *(f"{server}" for server in range(1, servers)), f"{servers} (slow)", "slow %"]
    lines = [
        [
            f"`{row.algorithm}`",
            *(f"{requests:.1f}" for requests in row.requests_per_server),
            _cell(_percent(row.slow_share), 2),
        ]
        for row in rows
    ]
    return _markdown(head, lines)


def report(rows: Sequence[Row], command: str) -> str:
    """Both tables, and how they were made."""
    seeds = rows[0].seeds
    how = f"`{command}`: {seeds} seed{'s' if seeds > 1 else ''} an algorithm"
    if seeds > 1:
        how += "; the mean over the seeds, ± the half width of its 95 % confidence interval (Student's t)"
    return f"{how}.\n\n{latencies(rows)}\n\n{distribution(rows)}\n"


def _percent(share: Interval) -> Interval:
    return Interval(mean=100 * share.mean, half_width=100 * share.half_width, count=share.count)


def _cell(figure: Interval, digits: int = 3) -> str:
    if math.isnan(figure.half_width) or figure.half_width < 10**-digits / 2:
        return f"{figure.mean:.{digits}f}"
    return f"{figure.mean:.{digits}f} ± {figure.half_width:.{digits}f}"


def _markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
