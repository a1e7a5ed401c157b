"""Tables as tidy CSV: a line for each point and measure, with mean, interval and number of seeds. Pure."""

import csv
import io
import math
from collections.abc import Iterable, Sequence

from steelyard_loadtest.simulate.studies.statistics import Interval

MEASURE_COLUMNS = ("measure", "unit", "mean", "ci95_half_width", "seeds")


def csv_text(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return the file; figures have six digits, what is unknown is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_cell(value) for value in line] for line in lines)
    return text.getvalue()


def measured(measure: str, unit: str, found: Interval) -> tuple[object, ...]:
    """Return the cells of `MEASURE_COLUMNS`."""
    return (measure, unit, found.mean, found.half_width, found.count)


def _cell(value: object) -> object:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return "" if value is None else value
