"""A table before it is Markdown or HTML. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from steelyard_loadtest.lab.algorithms import BY_NAME, DEFAULT
from steelyard_loadtest.lab.report.wording import ABSENT

Mark = Literal["", "default", "ours", "told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row; mark says whose it is, so that ours can be found."""

    cells: tuple[str, ...]
    mark: Mark = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """head and lines have the same number of cells. words: how many columns from the left are not figures.

    folded: it is one of many, and a reader opens it when he wants it.
    """

    title: str
    note: str
    head: tuple[str, ...]
    lines: tuple[Line, ...]
    words: int = 1
    folded: bool = False
    kind: Literal["table"] = "table"


def mark(algorithm: str) -> Mark:
    """Say how an algorithm's lines are marked."""
    known = BY_NAME[algorithm]
    if algorithm == DEFAULT:
        return "default"
    return "ours" if known.ours else "told" if known.told else ""


def without_empty(head: Sequence[str], lines: Sequence[Line]) -> tuple[tuple[str, ...], tuple[Line, ...]]:
    """Leave out the columns of which no line knows anything."""
    kept = [
        column for column in range(len(head)) if any(line.cells[column] not in ("", ABSENT) for line in lines)
    ]
    return (
        tuple(head[column] for column in kept),
        tuple(Line(cells=tuple(line.cells[column] for column in kept), mark=line.mark) for line in lines),
    )
