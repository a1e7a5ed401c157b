"""Writes results.csv and servers.csv (I/O)."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from steelyard_loadtest.lab.figures.cell import figures
from steelyard_loadtest.lab.figures.columns import COLUMNS, SERVERS_COLUMNS, row, servers_row
from steelyard_loadtest.lab.results import Results


def write(out: Path, results: Results) -> list[Path]:
    """Write a line a cell, and a line a server and second; return the files."""
    events = {scenario.name: scenario.events for scenario in results.scenarios}
    cells = (row(figures(entry, events[entry.cell.scenario])) for entry in results.measured)
    seconds = (servers_row(entry.cell, seen) for entry in results.measured for seen in entry.observed)
    return [
        _write(out / "results.csv", COLUMNS, cells),
        _write(out / "servers.csv", SERVERS_COLUMNS, seconds),
    ]


def _write(file: Path, head: Sequence[str], lines: Iterable[Sequence[str]]) -> Path:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(head)
        writer.writerows(lines)
    return file
