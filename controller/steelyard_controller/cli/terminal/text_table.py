"""Tables that never wrap: the least important columns go first, then the longest texts are cut. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from steelyard_controller.cli.terminal.style import Look, Style

Row = TypeVar("Row")

GAP = "  "

# Shorter texts look alike.
NARROWEST = 6


@dataclass(frozen=True, slots=True)
class Field:
    """A text in a style."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A heading with its unit, and the field or plain text of a row below it.

    In a narrow terminal the highest `rank` is left out first, never rank 0.
    """

    heading: str
    shown: Callable[[Row], Field | str]
    right: bool = False
    rank: int = 0


def table(columns: Sequence[Column[Row]], of: Sequence[Row], look: Look) -> list[str]:
    """Return the lines of a table, the headings first, then a line for each row."""
    shown = [[column.shown(row) for column in columns] for row in of]
    rows = [[Field(each) if isinstance(each, str) else each for each in fields] for fields in shown]
    # A column without any text is left out.
    kept = [at for at, column in enumerate(columns) if column.rank == 0 or any(row[at].text for row in rows)]
    widths = [
        max([len(column.heading), *(len(row[at].text) for row in rows)]) for at, column in enumerate(columns)
    ]
    _fit(columns, widths, kept, look)
    heading = [Field(columns[at].heading, "dim") for at in range(len(columns))]
    return [_line(columns, widths, kept, row, look) for row in (heading, *rows)]


def _fit(columns: Sequence[Column[Row]], widths: list[int], kept: list[int], look: Look) -> None:
    if look.width is None:
        return
    while _total(widths, kept) > look.width:
        least = max(kept, key=lambda at: (columns[at].rank, at))
        if columns[least].rank == 0:
            break
        kept.remove(least)
    while (over := _total(widths, kept) - look.width) > 0:
        texts = [at for at in kept if not columns[at].right and widths[at] > NARROWEST]
        if not texts:
            return
        widest = max(texts, key=lambda at: widths[at])
        widths[widest] = max(NARROWEST, widths[widest] - over)


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[at] for at in kept) + len(GAP) * (len(kept) - 1)


def _line(
    columns: Sequence[Column[Row]], widths: list[int], kept: list[int], row: Sequence[Field], look: Look
) -> str:
    """Return a row; the rest is cut at the edge."""
    parts, used = [], 0
    for place, at in enumerate(kept):
        text = look.cut(row[at].text, widths[at])
        text = text.rjust(widths[at]) if columns[at].right else text.ljust(widths[at])
        gap = GAP if place else ""
        if look.width is not None and used + len(gap) + len(text) > look.width:
            text = text[: max(0, look.width - used - len(gap))]
        if place == len(kept) - 1:
            text = text.rstrip()
        used += len(gap) + len(text)
        parts.append(gap + look.paint(text, row[at].style))
    return "".join(parts).rstrip()
