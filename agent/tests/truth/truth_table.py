"""The comparison table of docs/research/agent.md. Pure: rows in, Markdown out."""

from collections.abc import Sequence
from dataclasses import dataclass

ALLOWED_POINTS = 5.0
"""How far the agent may be off; the law's knees and thresholds are 10 points and more apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison, in shares of the limit (0..1); `host` is the host scope's figure in the same place."""

    work: str
    limit: str
    scope: str
    known: float
    read: float | None
    host: float | None = None

    @property
    def off_points(self) -> float | None:
        """Return the agent's error in points of a hundred; None if it read nothing."""
        return None if self.read is None else 100 * (self.read - self.known)

    @property
    def true(self) -> bool:
        """Return whether the agent is within the points allowed."""
        return self.off_points is not None and abs(self.off_points) <= ALLOWED_POINTS


def render(rows: Sequence[Row], *, machine: str) -> str:
    """Return the rows as a Markdown table with a line about the machine above it."""
    lines = [
        machine,
        "",
        "| work | 100 % is | scope | known | the agent reads | off by, points | `--scope host` meanwhile |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        off = "null" if row.off_points is None else f"{row.off_points:+.1f}"
        cells = [
            row.work,
            row.limit,
            row.scope,
            _percent(row.known),
            _percent(row.read),
            off,
            _percent(row.host),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"
