"""Writes the figures: every round as CSV, the report, and the part of a page that is between two marks."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from steelyard_loadtest.dataplane.records import Load, Measured, Reweighed

LOAD = ("requests", "seconds", "requests_per_s", "p50_ms", "p99_ms", "p999_ms", "max_ms",
        "non_2xx", "socket_errors")  # fmt: skip


def write_rounds(file: Path, measured: Sequence[Measured]) -> None:
    """Write one line for each contender, number of servers and round; an unknown value is empty."""
    own = ("cpu_s", "cpu_us_per_request", "cpu_utilization", "resident_bytes")
    lines = (
        [
            entry.round,
            entry.peers,
            entry.contender,
            *_load(entry.load),
            *(getattr(entry, name) for name in own),
        ]
        for entry in measured
    )
    _write(file, ["round", "peers", "contender", *LOAD, *own], lines)


def write_changes(file: Path, measured: Sequence[Reweighed]) -> None:
    """Write two lines for each change of weights: the load before it and after it."""
    lines = (
        [entry.round, entry.peers, entry.contender, when, *_load(load)]
        for entry in measured
        for when, load in (("before", entry.before), ("after", entry.after))
    )
    _write(file, ["round", "peers", "contender", "when", *LOAD], lines)


def _load(load: Load) -> list[float]:
    return [getattr(load, name) for name in LOAD]


def _write(file: Path, head: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(head)
        writer.writerows(lines)
