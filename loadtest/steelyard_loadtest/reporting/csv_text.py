"""Rows of objects as CSV text. Pure. Lines end with \\n; an unknown value (None, NaN) is an empty field."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")

Field = str | tuple[str, str | Callable[[T], object]]
"""A column: an attribute (dots reach into it) or a mapping's key; or a heading with that or a function."""


def csv_text(items: Iterable[T], columns: Sequence[Field[T]], *, digits: int | None = None) -> str:
    """Return a line an item under the headings; digits: significant ones of floats, None: all."""
    pairs = [(column, column) if isinstance(column, str) else column for column in columns]
    rows = ([_read(item, source) for _, source in pairs] for item in items)
    return rows_text([heading for heading, _ in pairs], rows, digits=digits)


def rows_text(head: Sequence[str], rows: Iterable[Sequence[object]], *, digits: int | None = None) -> str:
    """Return rows that are lists of values."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_field(value, digits) for value in row] for row in rows)
    return text.getvalue()


def names_of(dataclass: type[Any], *, without: Sequence[str] = ()) -> list[str]:
    """Return the names of a dataclass's fields, as columns."""
    return [field.name for field in fields(dataclass) if field.name not in without]


def _field(value: object, digits: int | None) -> object:
    if value is None or value != value:  # NaN
        return ""
    return f"{value:.{digits}g}" if digits is not None and isinstance(value, float) else value


def _read(item: T, source: str | Callable[[T], object]) -> object:
    if not isinstance(source, str):
        return source(item)
    return item.get(source) if isinstance(item, Mapping) else attrgetter(source)(item)
