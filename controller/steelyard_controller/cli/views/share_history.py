"""The history of each peer's share as lines. Pure."""

from steelyard_controller.cli.api_documents import History
from steelyard_controller.cli.terminal.numbers import percent, span, sparkline
from steelyard_controller.cli.terminal.style import Look
from steelyard_controller.cli.terminal.text_table import Column, Field, table

COLUMNS = (
    Column(heading="PEER"),
    Column(heading="SHARE % NOW", right=True),
    Column(heading="LEAST", right=True, rank=2),
    Column(heading="MOST", right=True, rank=1),
    Column(heading="COURSE"),
)

COURSE_WIDTH = 40


def of_history(document: History, look: Look) -> list[str]:
    """Return a line for each peer of the last moment, with its shares drawn from 0 to their largest."""
    if not document.moments:
        return [look.line(f"{document.upstream}: nothing is remembered yet", "warn")]
    first, last = document.moments[0], document.moments[-1]
    length = span(max(0.0, (last.at_ms - first.at_ms) / 1000))
    by_peer = [dict(zip(moment.ids, moment.share, strict=False)) for moment in document.moments]
    rows = []
    for peer in last.ids:
        course = [moment.get(peer) for moment in by_peer]
        known = [share for share in course if share is not None]
        rows.append(
            [
                Field(peer, "bold"),
                Field(percent(course[-1], 1)),
                Field(percent(min(known, default=None), 1)),
                Field(percent(max(known, default=None), 1)),
                Field(sparkline(course, COURSE_WIDTH, ascii_only=look.ascii_only), "bar"),
            ]
        )
    return [
        look.line(f"{document.upstream}  {len(document.moments)} moments of the last {length}", "bold"),
        *table(COLUMNS, rows, look),
    ]
