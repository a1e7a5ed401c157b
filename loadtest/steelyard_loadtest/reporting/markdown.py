"""Markdown: parts of a report, lists, pictures, the place between two marks of a page; and tables. Pure.

Tables are declared once:

COLUMNS = (
    Column("picker", lambda row: row.title, align="left"),
    Column("p99 ms", lambda row: wording.number(row.p99_ms, 2)),
)
markdown(table(rows, COLUMNS))
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import itemgetter
from typing import Generic, Literal, TypeVar

from steelyard_loadtest.reporting.wording import ABSENT

T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C")
Align = Literal["left", "right"]


# Without slots: in Python 3.11 `Column[Row](...)` of a frozen class with slots fails.
@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table of T: its heading, and the text of a field; None becomes a dash."""

    heading: str
    field: Callable[[T], str | None]
    align: Align = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row; bold marks the main row, and a heading between rows."""

    fields: tuple[str, ...]
    bold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """head, align and each line's fields have the same length. folded: closed until a reader opens it."""

    head: tuple[str, ...]
    align: tuple[Align, ...]
    lines: tuple[Line, ...]
    title: str = ""
    note: str = ""
    folded: bool = False


def table(
    items: Iterable[T],
    columns: Sequence[Column[T]],
    *,
    title: str = "",
    note: str = "",
    bold: Callable[[T], bool] = lambda _: False,
    group: Callable[[T], str] = lambda _: "",
) -> Table:
    """Return one line an item. With `group`, a line with the group's name precedes its first item."""
    lines: list[Line] = []
    last = ""
    for item in items:
        if (name := group(item)) != last:
            last = name
            lines.append(Line(fields=(name, *[""] * (len(columns) - 1)), bold=True))
        fields = tuple(ABSENT if (text := column.field(item)) is None else text for column in columns)
        lines.append(Line(fields=fields, bold=bold(item)))
    return Table(
        head=tuple(column.heading for column in columns),
        align=tuple(column.align for column in columns),
        lines=tuple(lines),
        title=title,
        note=note,
    )


def text_columns(
    head: Sequence[str],
    lines: Iterable[Sequence[str | None]],
    *,
    left: int = 1,
    title: str = "",
    note: str = "",
) -> Table:
    """Return a table of texts; the first `left` columns are aligned to the left, the others to the right."""
    columns = [
        Column[Sequence[str | None]](heading, itemgetter(place), "left" if place < left else "right")
        for place, heading in enumerate(head)
    ]
    return table(lines, columns, title=title, note=note)


def pivot(
    corner: str,
    rows: Sequence[R],
    columns: Sequence[C],
    field: Callable[[R, C], str | None],
    *,
    row_text: Callable[[R], str] = str,
    column_text: Callable[[C], str] = str,
) -> Table:
    """Return a table of every row against every column; `corner` is the heading of the rows' names."""
    lines = [[row_text(row), *(field(row, column) for column in columns)] for row in rows]
    return text_columns([corner, *map(column_text, columns)], lines)


def without_empty_columns(grid: Table) -> Table:
    """Leave out the columns without a figure."""
    kept = [
        any(field not in ("", ABSENT) for field in column)
        for column in zip(*(line.fields for line in grid.lines), strict=True)
    ]
    return replace(
        grid,
        head=tuple(compress(grid.head, kept)),
        align=tuple(compress(grid.align, kept)),
        lines=tuple(replace(line, fields=tuple(compress(line.fields, kept))) for line in grid.lines),
    )


def markdown(grid: Table) -> str:
    """Write the grid as GitHub's Markdown: no title, no note, no newline at the end."""
    separators = ["---" if align == "left" else "---:" for align in grid.align]
    rows = [[escaped(name) for name in grid.head], separators]
    for line in grid.lines:
        bold = "**" if line.bold else ""
        rows.append([f"{bold}{escaped(field)}{bold}" if field else "" for field in line.fields])
    return "\n".join(f"| {' | '.join(fields)} |" for fields in rows)


def plain(written: str) -> str:
    """Escape text for Markdown, so that < begins no tag."""
    return written.replace("&", "&amp;").replace("<", "&lt;")


def escaped(written: str) -> str:
    """Escape text for a field of a Markdown table, which a bar or a newline would end."""
    return plain(written).replace("|", "\\|").replace("\n", " ")


def document(*parts: str | None) -> str:
    """Join the parts with an empty line between; empty ones and None are left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def bullets(items: Sequence[str] | Mapping[str, str], title: str = "") -> str:
    """Write a list (a mapping as `name: text`) under an introducing line; "" without items."""
    lines = [_named(*item) for item in items.items()] if isinstance(items, Mapping) else list(items)
    if not lines:
        return ""
    return "\n".join([*([title, ""] if title else []), *(f"- {line}" for line in lines)])


def _named(name: str, text: str) -> str:
    """Write `name: text`; a text that is a list of its own begins with a line break."""
    return f"{name}:{text}" if text.startswith("\n") else f"{name}: {text}"


def image(alt: str, path: str | None) -> str:
    """Write a picture; "" without a path."""
    return f"![{alt}]({path})" if path else ""


def as_section(page: str, plots: str, plots_on_page: str) -> str:
    """Return a page as a part of another: without its title, one level down, its plots elsewhere."""
    _, _, body = page.partition("\n")
    body = re.sub(r"^(#{2,5}) ", r"#\1 ", body, flags=re.MULTILINE)
    return body.replace(f"]({plots}/", f"]({plots_on_page}/").strip() + "\n"


def filled(file: str, marks: str, page: str) -> str:
    """Return the file with the page between the marks of this name. Raises ValueError when it has none."""
    begin, end = f"<!-- {marks}: begin -->", f"<!-- {marks}: end -->"
    before, begun, rest = file.partition(begin)
    _, closed, after = rest.partition(end)
    if not begun or not closed:
        raise ValueError(f"the page has no {begin} and {end} to write between")
    return f"{before}{begin}\n\n{page}\n{end}{after}"
