"""The history of each peer's share as lines. Pure."""

from collections.abc import Sequence

from steelyard_controller.cli.api_documents import History
from steelyard_controller.cli.terminal.numbers import percent, span, sparkline
from steelyard_controller.cli.terminal.style import Look
from steelyard_controller.cli.terminal.text_table import Column, Field, table

COURSE_WIDTH = 40


def of_history(document: History, look: Look) -> list[str]:
    """Return a line for each peer of the last moment, with its shares drawn from 0 to their largest."""
    if not document.moments:
        return [look.line(f"{document.upstream}: nothing is remembered yet", "warn")]
    first, last = document.moments[0], document.moments[-1]
    length = span(max(0.0, (last.at_ms - first.at_ms) / 1000))
    by_peer = [dict(zip(moment.ids, moment.share, strict=False)) for moment in document.moments]
    courses = {peer: [moment.get(peer) for moment in by_peer] for peer in last.ids}
    known = {peer: [share for share in each if share is not None] for peer, each in courses.items()}
    columns: tuple[Column[str], ...] = (
        Column("PEER", lambda peer: Field(peer, "bold")),
        Column("SHARE % NOW", lambda peer: percent(courses[peer][-1], 1), right=True),
        Column("LEAST", lambda peer: percent(min(known[peer], default=None), 1), right=True, rank=2),
        Column("MOST", lambda peer: percent(max(known[peer], default=None), 1), right=True, rank=1),
        Column("COURSE", lambda peer: _course(courses[peer], look)),
    )
    return [
        look.line(f"{document.upstream}  {len(document.moments)} moments of the last {length}", "bold"),
        *table(columns, last.ids, look),
    ]


def _course(shares: Sequence[float | None], look: Look) -> Field:
    return Field(sparkline(shares, COURSE_WIDTH, ascii_only=look.ascii_only), "bar")
