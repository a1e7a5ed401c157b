"""Writes the study's figures as CSV."""

import csv
from collections.abc import Sequence
from pathlib import Path

from steelyard_loadtest.simulate.ns3.published import COLUMNS
from steelyard_loadtest.simulate.ns3.summary import Run


def write_runs(file: Path, runs: Sequence[Run]) -> None:
    """Write a line for each algorithm and seed; nothing in it is measured, so a seed's lines never change."""
    servers = len(runs[0].requests_per_server)
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        per_server = [f"requests_{server}" for server in range(1, servers + 1)]
        writer.writerow(["algorithm", "seed", *COLUMNS, *per_server, "events"])
        for run in runs:
            writer.writerow([run.algorithm, run.seed, *run.columns, *run.requests_per_server, run.events])
