"""Numbers in a source's text: Prometheus's format, JSON, a table, words, or a number alone. Pure.

An unreadable text raises `SourceError` with a sentence for a person. prometheus_client parses only the lines
of the wanted metric: so a page of thousands costs little.
"""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from steelyard_agent.indicators.declared import Indicator
from steelyard_agent.log_text import one_line

Labels = tuple[tuple[str, str], ...]

# A parsed JSON document takes up to fifty times its size; a page of metrics does not.
LARGEST_JSON = 256 * 1024

# Each takes about 10 us to parse, and a counter's are kept until the next reading.
MOST_SERIES = 1000

# More than any metric's labels; a line without an end is not parsed.
LONGEST_LINE = 8192

NUMBER = re.compile(r"[ \t]*([-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)")

INDEX = re.compile(r"0|[1-9][0-9]{0,6}")

# The samples of these families count up, whatever the family's name is.
COUNTER_SUFFIXES = ("_bucket", "_count", "_sum")


class SourceError(Exception):
    """A source could not be read, or has no usable content; the message is for a person."""


@dataclass(frozen=True, slots=True)
class Series:
    """The numbers of one name, by their labels, and whether they only count up."""

    numbers: Mapping[Labels, float]
    counter: bool = False


def read(indicator: Indicator, name: str, text: str) -> Series:
    """Return the numbers of `name` (the indicator's amount or limit) in a text; raise `SourceError`."""
    match indicator.text_format:
        case "prometheus":
            series = _prometheus(text, name, indicator.labels)
        case "json":
            series = Series({(): _in_json(text, name)})
        case "column":
            series = _column(text, name, indicator.labels)
        case "words":
            series = Series({(): _after(text, name)})
        case "number":
            series = Series({(): _float(text.strip(), "the text")})
    for number in series.numbers.values():
        if not isfinite(number):
            raise SourceError(f"{name or 'the number'} is {number}")
    return series


def _prometheus(text: str, metric: str, labels: Labels) -> Series:
    # Here, because it takes 7 MB, and an agent without such a source saves them.
    from prometheus_client.parser import text_string_to_metric_families

    lines = _lines_of(text, metric)
    if any(len(line) > LONGEST_LINE for line in lines):
        raise SourceError(f"{metric} has a line of more than {LONGEST_LINE} characters")
    if len(lines) > MOST_SERIES:
        raise SourceError(f"{metric} has more than {MOST_SERIES} series: choose some with labels")
    numbers: dict[Labels, float] = {}
    counter = False
    types: dict[str, str] = {}
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            types[family.name] = family.type
            for sample in family.samples:
                if labels and not set(labels) <= sample.labels.items():
                    continue
                counter = _counts_up(sample.name, types, family.type)
                numbers[tuple(sorted(sample.labels.items()))] = float(sample.value)
    except ValueError as error:
        raise SourceError(f"{metric} is not in Prometheus's text format: {one_line(str(error))}") from None
    if not numbers:
        chosen = "".join(f" {name}={value!r}" for name, value in labels)
        raise SourceError(f"there is no metric {metric}{' with' if chosen else ''}{chosen}: look at the page")
    return Series(numbers, counter)


def _counts_up(name: str, types: Mapping[str, str], family_type: str) -> bool:
    """Return whether the samples of this name only count up; `types` are those of the page's families.

    OpenMetrics names a counter's family without the suffix: `# TYPE jobs counter`, then `jobs_total 5`.
    Prometheus's older format has `# TYPE jobs_total counter`, and the library that reads it takes the other
    `jobs_total` for a family of its own without a type.
    """
    if family_type == "unknown" and name.endswith("_total"):
        return types.get(name.removesuffix("_total")) == "counter"
    is_part = name.endswith(COUNTER_SUFFIXES)
    return family_type == "counter" or (family_type in {"histogram", "summary"} and is_part)


def _lines_of(text: str, metric: str) -> list[str]:
    """Return the metric's samples and its type line: a family may be named without its suffix."""
    families = {metric, *(metric.removesuffix(suffix) for suffix in ("_total", *COUNTER_SUFFIXES))}
    types = "|".join(re.escape(family) for family in sorted(families))
    # One pass with the regular expressions' own search for a line's beginning takes a fifth of a loop's
    # time over the lines, for a page of 45 kB.
    return re.findall(rf"\n({re.escape(metric)}[{{ \t].*|# TYPE (?:{types}) .*)", f"\n{text}")


def _in_json(text: str, pointer: str) -> float:
    if len(text) > LARGEST_JSON:
        raise SourceError(f"the JSON is longer than {LARGEST_JSON // 1024} KiB: ask for less of it")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise SourceError(f"it is not JSON: {_start(text)}") from None
    # RFC 6901.
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and INDEX.fullmatch(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            raise SourceError(f"there is no {pointer} in its JSON")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SourceError(f"{pointer} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise SourceError(f"{pointer} is too large") from None


def _column(text: str, column: str, labels: Labels) -> Series:
    # A table has its columns' names in the first line, with commas (CSV) or blanks between them.
    # At most one cut too many: a megabyte of line feeds would be a million lines.
    lines = text.removeprefix("#").lstrip().split("\n", MOST_SERIES + 1)
    if len(lines) > MOST_SERIES + 1:
        raise SourceError(f"its table has more than {MOST_SERIES} rows")
    try:
        rows = list(csv.reader(lines)) if lines and "," in lines[0] else [line.split() for line in lines]
    except csv.Error as error:
        raise SourceError(f"it is no table: {one_line(str(error))}") from None
    head = rows[0] if rows else []
    for name in (column, *(label for label, _ in labels)):
        if name not in head:
            raise SourceError(f"there is no column {name}: it begins with {_start(text)}")
    place = head.index(column)
    chosen = [(head.index(label), value) for label, value in labels]
    numbers: dict[Labels, float] = {}
    for number, row in enumerate(rows[1:]):
        if place < len(row) and row[place] and all(_cell(row, at) == value for at, value in chosen):
            numbers[("row", str(number)),] = _float(row[place], column)
    if not numbers:
        raise SourceError(f"its table has no row with a {column}" + (" and those labels" if labels else ""))
    return Series(numbers)


def _cell(row: Sequence[str], place: int) -> str:
    return row[place] if place < len(row) else ""


def _after(text: str, words: str) -> float:
    _, separator, rest = text.partition(words)
    match = NUMBER.match(rest)
    if not separator or match is None:
        raise SourceError(f"there is no number after {words!r}: it begins with {_start(text)}")
    return float(match[1])


def _float(text: str, what: str) -> float:
    if len(text) > 100 or not NUMBER.fullmatch(text):
        raise SourceError(f"{what} is {_start(text)}, not a number")
    return float(text)


def _start(text: str) -> str:
    return repr(text[:40]) if text else "nothing"
