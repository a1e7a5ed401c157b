"""From runs to the study's columns: one set a run, and their mean over the seeds with its interval. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard_loadtest.simulate.model import RunResult
from steelyard_loadtest.simulate.ns3.published import COLUMNS
from steelyard_loadtest.simulate.studies.statistics import Interval, interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One algorithm with one seed: the columns in the order of `COLUMNS`, requests per server, events."""

    algorithm: str
    seed: int
    columns: tuple[float, ...]
    requests_per_server: tuple[int, ...]
    events: int
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One algorithm over its seeds; `slow_share` is the part of requests that the last, slow server got."""

    algorithm: str
    seeds: int
    columns: tuple[Interval, ...]
    requests_per_server: tuple[float, ...]
    slow_share: Interval

    @property
    def avg_ms(self) -> Interval:
        """The mean latency."""
        return self.columns[COLUMNS.index("avg_ms")]


def summed_up(result: RunResult) -> Run:
    """Return a run's columns; percentiles between two requests are interpolated, as in the study."""
    latency_ms = result.latency_ms
    percentiles = np.percentile(latency_ms, (50, 75, 90, 95, 99))
    columns = (
        latency_ms.min(), latency_ms.mean(), *percentiles, latency_ms.max(), latency_ms.std(),
    )  # fmt: skip
    return Run(
        algorithm=result.name,
        seed=result.seed,
        # A nanosecond is what ns-3 counts in; the crumbs below it are floating point's.
        columns=tuple(round(float(value), 6) for value in columns),
        requests_per_server=tuple(result.requests_per_server.tolist()),
        events=result.events,
        cpu_s=result.cpu_s,
    )


def rows(runs: Sequence[Run]) -> list[Row]:
    """Return a row for each algorithm, in the order in which they first come."""
    return [
        _row([run for run in runs if run.algorithm == name])
        for name in dict.fromkeys(run.algorithm for run in runs)
    ]


def _row(runs: Sequence[Run]) -> Row:
    per_server = np.array([run.requests_per_server for run in runs], dtype=float)
    slow = per_server[:, -1] / per_server.sum(axis=1)
    return Row(
        algorithm=runs[0].algorithm,
        seeds=len(runs),
        columns=tuple(interval(column) for column in zip(*(run.columns for run in runs), strict=True)),
        requests_per_server=tuple(per_server.mean(axis=0).tolist()),
        slow_share=interval(slow.tolist()),
    )
