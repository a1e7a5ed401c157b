"""The audit log as lines, newest first. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from steelyard_controller.cli.api_documents import AuditEntry
from steelyard_controller.cli.terminal.style import Look
from steelyard_controller.cli.terminal.text_table import Column, Field, table

COLUMNS: tuple[Column[AuditEntry], ...] = (
    Column("WHEN (UTC)", lambda entry: Field(_when(entry.at_ms), "dim")),
    Column("WHO", lambda entry: Field(entry.who, "bold")),
    Column("AS", lambda entry: entry.kind, rank=3),
    Column("BY WAY OF", lambda entry: entry.via or "", rank=2),
    Column("FROM", lambda entry: entry.address or "", rank=4),
    Column("UPSTREAM", lambda entry: entry.upstream, rank=1),
    Column("WHAT", lambda entry: entry.what),
)


def of_entries(entries: Sequence[AuditEntry], look: Look) -> list[str]:
    """Return a line for each change, and how to see those before."""
    if not entries:
        return [look.line("nothing was changed", "dim")]
    before = f"those before: --before {entries[-1].id}"
    return [*table(COLUMNS, entries, look), look.line(before, "dim")]


def _when(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
