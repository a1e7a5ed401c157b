"""Writes what a soak read: a line a process and moment, and a line a moment of the whole (I/O)."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from steelyard_loadtest.soak.records import Overview, Reading, Soaked

SAMPLES, OVERVIEW = "samples.csv", "overview.csv"


def write(out: Path, soaked: Soaked) -> None:
    """Write both files; an unknown value is empty. Raises OSError."""
    names = [field.name for field in fields(Reading)]
    _write(out / SAMPLES, names, ([getattr(one, name) for name in names] for one in soaked.readings))
    single = [field.name for field in fields(Overview) if field.name != "in_flight"]
    who = sorted({name for one in soaked.overviews for name in one.in_flight})
    lines = (
        [*(getattr(one, name) for name in single), *(one.in_flight.get(name) for name in who)]
        for one in soaked.overviews
    )
    _write(out / OVERVIEW, [*single, *(f"in flight: {name}" for name in who)], lines)


def _write(file: Path, head: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(head)
        writer.writerows(lines)
