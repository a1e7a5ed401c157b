"""The ns-3 study: its case, its algorithms, its published latencies, and ours in the same table.

Pure but for reading the published figures from the lab's findings. R. Roblak, *ns-3 Load Balancer Simulation*
(github.com/rroblak/envoy-peak-ewma). Its README: 10 clients and 10 servers of weight 1.
Nine servers answer after 5 ms and one after 50 ms. Each client sends 100 requests, one every 0.1 s; 15 s in
all. "Latency Results (ms)" is one run of each algorithm. From its source: clients start 1 ms apart (main.cc);
a server delays each request separately and nothing queues (latency_server_app.cc); every request has a random
key (latency_client_app.cc).
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from steelyard_loadtest.reporting.markdown import document, markdown, text_columns
from steelyard_loadtest.reporting.statistics import Interval
from steelyard_loadtest.reporting.wording import counted, plus_minus

from steelyard_simulator.model import Balancing, Case, Draw, PeriodicClients, RunResult, Server, Work
from steelyard_simulator.pickers import OURS
from steelyard_simulator.studies.measures import Figures, Runs, averaged

COLUMNS = {
    "min_ms": "Min", "avg_ms": "Avg", "p50_ms": "P50", "p75_ms": "P75", "p90_ms": "P90", "p95_ms": "P95",
    "p99_ms": "P99", "max_ms": "Max", "stddev_ms": "Std Dev",
}  # fmt: skip
"""Measure -> heading."""

_FINDINGS = tomllib.loads(files("steelyard_loadtest.compare.findings").joinpath("files/ns3.toml").read_text())
PUBLISHED = {name.lower(): tuple(rows["100"]) for name, rows in _FINDINGS["published"].items()}
"""Algorithm -> the nine columns, in the order of `COLUMNS`."""

HASHED = ("ringhash", "maglev")
"""Algorithms that pick by the request's key. Keys are random, so to the servers they are `random`."""

CLIENTS, REQUESTS, INTERVAL_S, STAGGER_S, DURATION_S = 10, 100, 0.1, 0.001, 15.0
FAST_S, SLOW_S, FAST_SERVERS = 0.005, 0.050, 9

ALGORITHMS: tuple[Balancing, ...] = (
    *(Balancing(law=None, picker=picker) for picker in (*PUBLISHED, "prequal") if picker not in HASHED),
    *(Balancing(law=law, picker=picker) for law in ("steelyard", "static") for picker in OURS),
    *(Balancing(law=law, picker=picker) for law in ("cswrr", "paper") for picker in ("vnswrr", "vnswrr2")),
)
"""Theirs in the order of their table, then ours: the default law and fixed weights with every picker, the
other laws with the plain ring and the default picker."""

BY_NAME = {balancing.name: balancing for balancing in ALGORITHMS}


@dataclass(frozen=True, slots=True)
class Ns3Trial:
    """An algorithm of the study by its name."""

    algorithm: str

    def case(self) -> Case:
        """Return the study's case."""
        fast = Server(latency=Draw(mean_s=FAST_S, shape="constant"))
        slow = Server(latency=Draw(mean_s=SLOW_S, shape="constant"))
        return Case(
            servers=(fast,) * FAST_SERVERS + (slow,),
            clients=PeriodicClients(
                clients=CLIENTS, interval_s=INTERVAL_S, requests=REQUESTS, stagger_s=STAGGER_S
            ),
            work=Work(),
            duration_s=DURATION_S,
            balancing=BY_NAME[self.algorithm],
        )


def figures_of(_case: Case, result: RunResult) -> Figures:
    """Return a run's latencies, and the percentage of requests to the last, slow server.

    Percentiles between two requests are interpolated, as in the study.
    """
    latency_ms, requests = result.latency_ms, result.requests_per_server
    percentiles = np.percentile(latency_ms, (50, 75, 90, 95, 99))
    columns = (latency_ms.min(), latency_ms.mean(), *percentiles, latency_ms.max(), latency_ms.std())
    # ns-3 counts in nanoseconds; anything below is rounding of floating point.
    figures = {name: round(float(value), 6) for name, value in zip(COLUMNS, columns, strict=True)}
    return {**figures, "slow_percent": float(100 * requests[-1] / requests.sum())}


def page(runs: Runs, command: str) -> str:
    """Return the table; each of the study's algorithms is followed by its published row."""
    seeds = len(next(iter(runs.values())))
    how = f"`{command}`: {counted(seeds, 'seed')} an algorithm"
    if seeds > 1:
        how += "; the mean over the seeds, ± the half width of its 95 % confidence interval (Student's t)"
    lines = []
    for trial, row in averaged(runs).items():
        mine = trial.algorithm
        latencies = (_text(row[name], 3) for name in COLUMNS)
        lines.append([f"`{mine}`", *latencies, _text(row["slow_percent"], 2)])
        for name in (mine, *HASHED) if mine == "random" else (mine,):
            if name in PUBLISHED:
                what = f"*published, {name}*" if name in HASHED else "*published, one run*"
                lines.append([what, *(f"*{figure:.3f}*" for figure in PUBLISHED[name]), ""])
    head = ["ms", *COLUMNS.values(), "% to the slow server"]
    return document(f"{how}.", markdown(text_columns(head, lines)))


def _text(figure: Interval, digits: int) -> str:
    shown = figure.half_width >= 10**-digits / 2
    return plus_minus(figure.mean, figure.half_width if shown else None, digits)
