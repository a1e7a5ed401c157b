"""Writes the demo's figures: demo.csv (tidy: one value a row) and demo.json (summary)."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from steelyard_loadtest.demo.aggregate import Third, per_second
from steelyard_loadtest.demo.records import Phase

COLUMNS = ("phase", "t_s", "metric", "server", "value", "unit")
Row = tuple[str, float, str, str, float | None, str]


def tidy(phase: Phase, servers: Sequence[str]) -> Iterator[Row]:
    """Give one row for each phase, second, metric and server ("": all); an unknown value is None."""
    for second in per_second(phase, servers):
        at = (phase.name, second.from_s)
        yield (*at, "requests", "", second.requests_per_s, "1/s")
        yield (*at, "failures", "", second.failures / (second.to_s - second.from_s), "1/s")
        yield (*at, "p50", "", second.p50_ms, "ms")
        yield (*at, "p99", "", second.p99_ms, "ms")
        for server in servers:
            yield (*at, "share", server, second.shares[server], "1")
    for entry in phase.observed:
        at = (phase.name, round(entry.t_s, 3))
        yield (*at, "weight_share", entry.server, entry.weight_share, "1")
        yield (*at, "cpu_utilization", entry.server, entry.cpu_utilization, "1")


def write_csv(file: Path, phases: Sequence[Phase], servers: Sequence[str]) -> None:
    """Write the tidy rows of all phases; an unknown value is an empty cell."""
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for phase in phases:
            writer.writerows(tidy(phase, servers))


def write_summary(
    file: Path,
    *,
    conditions: Mapping[str, object],
    phases: Sequence[Phase],
    thirds: Mapping[str, Sequence[Third]],
) -> None:
    """Write the conditions, and each phase's burn and thirds; `thirds` is by the phase's name."""
    document = {
        **conditions,
        "phases": [
            {
                "name": phase.name,
                "title": phase.title,
                "planned_s": phase.planned_s,
                "measured_s": phase.measured_s,
                "burn_s": phase.burn,
                "thirds": {third.name: asdict(third.figures) for third in thirds[phase.name]},
            }
            for phase in phases
        ],
    }
    file.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
