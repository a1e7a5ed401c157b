"""What one cell of a comparison measured: the row of the CSV, and what happened second by second. Pure.

A cell is one algorithm at one level of load, once. Latencies are those of
requests that succeeded: a failure may be quick, and would flatter.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is measured at a time. level: users, connections, requests/s, or the part of the capacity."""

    scenario: str
    algorithm: str
    level: float
    repeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """A point of the latency distribution: `part` (0..1) of the requests took no longer than `ms`."""

    part: float
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a generator saw.

    requests: all that were sent (locust), due (open) or ended (siege, wrk) in `seconds`,
    failures among them. quantiles: ascending, at `generators.quantiles.PARTS`; empty
    when nothing succeeded. concurrency: requests in flight on average. kinds: failures
    by kind (`502`, `timeout`, `refused`, ...). generator_cpu_utilization: the
    generator's own, of one core; near 1 the generator was the bottleneck, not the servers.
    """

    seconds: float
    requests: int
    failures: int
    kinds: Mapping[str, int]
    mean_ms: float | None
    min_ms: float | None
    max_ms: float | None
    quantiles: tuple[Quantile, ...]
    concurrency: float
    generator_cpu_utilization: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One server at one moment, from counters that only grow; at_s is the monotonic clock's."""

    at_s: float
    server: str
    served: int
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One server in the `interval_s` that ended at t_s (seconds since the load began).

    share: of what all servers answered in it (None: nothing was answered).
    cpu_utilization: of its limit, or of one core where it has none.
    """

    t_s: float
    interval_s: float
    server: str
    served: int
    share: float | None
    cpu_utilization: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A finished cell. balancer_cpu_s: its user and system time meanwhile; None without a balancer."""

    cell: Cell
    generator: str
    outcome: Outcome
    observed: tuple[Observed, ...]
    balancer_cpu_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An algorithm that was wanted and has no figures, and why."""

    scenario: str
    algorithm: str
    why: str
