"""The ns-3 study: its case, the algorithms on it, the latencies that it published, and ours beside them.

Pure. R. Roblak, *ns-3 Load Balancer Simulation* (github.com/rroblak/envoy-peak-ewma). From its README: 10
clients, 10 servers of weight 1, nine answer after 5 ms and one after 50 ms, each client sends 100 requests,
one every 0.1 s; 15 s in all; "Latency Results (ms)" is one run of each algorithm. From its source: clients
start 1 ms apart (main.cc), a server delays each request by itself and nobody queues
(latency_server_app.cc), every request has a random key (latency_client_app.cc).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from steelyard_loadtest.reporting import tables
from steelyard_loadtest.reporting.csv_text import rows_text
from steelyard_loadtest.reporting.markdown import document
from steelyard_loadtest.reporting.statistics import Interval
from steelyard_loadtest.reporting.wording import plus_minus

from steelyard_simulator.model import Balancing, Case, Draw, PeriodicClients, RunResult, Server, Work
from steelyard_simulator.pickers import OURS, PREQUAL
from steelyard_simulator.studies.measures import Figures, Measures

COLUMNS = ("min_ms", "avg_ms", "p50_ms", "p75_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "stddev_ms")
HEAD = ("Min", "Avg", "P50", "P75", "P90", "P95", "P99", "Max", "Std Dev")

PUBLISHED = MappingProxyType(
    {
        "wrr": (5.0, 9.592, 5.0, 5.0, 24.0, 50.0, 50.0, 59.0, 13.5393),
        "lr": (5.0, 8.924, 5.0, 5.0, 5.0, 50.0, 50.0, 63.0, 12.6056),
        "random": (5.0, 9.614, 5.0, 5.0, 23.0, 50.0, 50.0, 55.0, 13.5226),
        "ringhash": (5.0, 9.370, 5.0, 5.0, 13.0, 50.0, 50.0, 63.0, 13.2148),
        "maglev": (5.0, 8.713, 5.0, 5.0, 5.0, 50.0, 50.0, 60.0, 12.2602),
        "peakewma": (5.0, 5.145, 5.0, 5.0, 5.0, 5.0, 7.0, 63.0, 2.0591),
    }
)
"""Algorithm -> the nine columns, in the order of `COLUMNS`."""

HASHED = ("ringhash", "maglev")
"""By the request's key, which is random: to the servers that is `random`, and so that stands for them."""

CLIENTS, REQUESTS, INTERVAL_S, STAGGER_S, DURATION_S = 10, 100, 0.1, 0.001, 15.0
FAST_S, SLOW_S, FAST_SERVERS = 0.005, 0.050, 9

REQUESTS_PER_SERVER = tuple(f"requests_{number}" for number in range(1, FAST_SERVERS + 2))
"""The measures after the latencies; `slow_share` is the part of requests that the last, slow server got."""

ALGORITHMS: tuple[Balancing, ...] = (
    *(Balancing(law=None, picker=picker) for picker in (*PUBLISHED, PREQUAL) if picker not in HASHED),
    *(Balancing(law=law, picker=picker) for law in ("steelyard", "static") for picker in OURS),
    *(Balancing(law=law, picker=picker) for law in ("cswrr", "paper") for picker in ("vnswrr", "vnswrr2")),
)
"""Theirs in the order of their table, then ours: the default law and fixed weights on every picker, the
other laws on the plain ring and on the default picker."""

BY_NAME = {balancing.name: balancing for balancing in ALGORITHMS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ns3Trial:
    """An algorithm of the study by its name; more requests a client make it as much longer."""

    algorithm: str
    requests: int = REQUESTS

    def case(self) -> Case:
        """Return the study's case."""
        fast = Server(latency=Draw(mean_s=FAST_S, shape="constant"))
        slow = Server(latency=Draw(mean_s=SLOW_S, shape="constant"))
        return Case(
            servers=(fast,) * FAST_SERVERS + (slow,),
            clients=PeriodicClients(
                clients=CLIENTS, interval_s=INTERVAL_S, requests=self.requests, stagger_s=STAGGER_S
            ),
            work=Work(),
            duration_s=max(DURATION_S, DURATION_S * self.requests / REQUESTS),
            balancing=BY_NAME[self.algorithm],
        )


def figures_of(_case: Case, result: RunResult) -> Figures:
    """Return a run's figures; percentiles between two requests are interpolated, as in the study."""
    latency_ms, requests = result.latency_ms, result.requests_per_server
    percentiles = np.percentile(latency_ms, (50, 75, 90, 95, 99))
    columns = (latency_ms.min(), latency_ms.mean(), *percentiles, latency_ms.max(), latency_ms.std())
    return {
        # A nanosecond is what ns-3 counts in; the crumbs below it are floating point's.
        **{name: round(float(value), 6) for name, value in zip(COLUMNS, columns, strict=True)},
        **dict(zip(REQUESTS_PER_SERVER, requests.tolist(), strict=True)),
        "slow_share": float(requests[-1] / requests.sum()),
        "events": result.events,
    }


def runs_csv(runs: Mapping[str, Sequence[Figures]], first_seed: int) -> str:
    """Return a line for each algorithm and seed; nothing is measured, so a seed's lines never change."""
    measures = (*COLUMNS, *REQUESTS_PER_SERVER, "events")
    return rows_text(
        ["algorithm", "seed", *measures],
        (
            [algorithm, seed, *(figures[name] for name in measures)]
            for algorithm, own in runs.items()
            for seed, figures in enumerate(own, first_seed)
        ),
    )


def objects(rows: Mapping[str, Measures]) -> list[dict[str, object]]:
    """Return what `--json` prints: an object per algorithm, the means over the seeds."""
    return [
        {
            "algorithm": algorithm,
            **{name: round(row[name].mean, 4) for name in COLUMNS},
            "requests_per_server": [round(row[name].mean, 2) for name in REQUESTS_PER_SERVER],
        }
        for algorithm, row in rows.items()
    ]


def latencies(rows: Mapping[str, Measures]) -> str:
    """Return the latencies, each of the study's algorithms followed by what the study published."""
    lines = []
    for algorithm, row in rows.items():
        lines.append([f"`{algorithm}`", *(_text(row[name]) for name in COLUMNS)])
        for name in (algorithm, *HASHED) if algorithm == "random" else (algorithm,):
            if name in PUBLISHED:
                what = f"*published, {name}*" if name in HASHED else "*published, one run*"
                lines.append([what, *(f"*{figure:.3f}*" for figure in PUBLISHED[name])])
    return tables.markdown(tables.text_columns(["ms", *HEAD], lines))


def distribution(rows: Mapping[str, Measures]) -> str:
    """Return the requests per server, and the slow server's part of them."""
    servers = len(REQUESTS_PER_SERVER)
    head = ["requests", *(f"{server}" for server in range(1, servers)), f"{servers} (slow)", "slow %"]
    lines = [
        [
            f"`{algorithm}`",
            *(f"{row[name].mean:.1f}" for name in REQUESTS_PER_SERVER),
            _text(row["slow_share"], scale=100, digits=2),
        ]
        for algorithm, row in rows.items()
    ]
    return tables.markdown(tables.text_columns(head, lines))


def page(rows: Mapping[str, Measures], command: str) -> str:
    """Return both tables, and how they were made."""
    seeds = next(iter(rows.values()))["avg_ms"].count
    how = f"`{command}`: {seeds} seed{'s' if seeds > 1 else ''} an algorithm"
    if seeds > 1:
        how += "; the mean over the seeds, ± the half width of its 95 % confidence interval (Student's t)"
    return document(f"{how}.", latencies(rows), distribution(rows))


def _text(figure: Interval, *, scale: float = 1, digits: int = 3) -> str:
    mean, half_width = scale * figure.mean, scale * figure.half_width
    return plus_minus(mean, half_width if half_width >= 10**-digits / 2 else None, digits)
