"""The audit log as lines, newest first. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from steelyard_controller.cli.api_documents import AuditEntry
from steelyard_controller.cli.terminal.style import Look
from steelyard_controller.cli.terminal.text_table import Column, Field, table

RANKS = {"WHEN (UTC)": 0, "WHO": 0, "AS": 3, "BY WAY OF": 2, "FROM": 4, "UPSTREAM": 1, "WHAT": 0}
COLUMNS = tuple(Column(heading=heading, rank=rank) for heading, rank in RANKS.items())


def of_entries(entries: Sequence[AuditEntry], look: Look) -> list[str]:
    """Return a line for each change, and how to see those before."""
    if not entries:
        return [look.line("nothing was changed", "dim")]
    before = f"those before: --before {entries[-1].id}"
    return [*table(COLUMNS, [_row(each) for each in entries], look), look.line(before, "dim")]


def _row(entry: AuditEntry) -> list[Field]:
    at = f"{datetime.fromtimestamp(entry.at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    texts = (entry.kind, entry.via or "", entry.address or "", entry.upstream, entry.what)
    return [Field(at, "dim"), Field(entry.who, "bold"), *(Field(text) for text in texts)]
