"""What one trial of a comparison measured: the row of the CSV, and what happened second by second. Pure.

A trial is one algorithm at one level of load, once. Latencies are those of
requests that succeeded: a failure may be quick, and would flatter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard_loadtest.measurements.percentiles import Quantile
from steelyard_loadtest.scenario.definition import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is measured at a time. level: users, connections, requests/s, or the part of the capacity."""

    scenario: str
    algorithm: str
    level: float
    repeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a generator saw.

    requests: all that were sent (locust), due (open) or ended (wrk) in `seconds`,
    failures among them. quantiles: ascending, at PARTS; empty
    when nothing succeeded. concurrency: requests in flight on average. kinds: failures
    by kind (`502`, `timeout`, `refused`, ...). generator_cpu_utilization: the
    generator's own, of one core; near 1 the generator was the bottleneck, not the servers.
    phases: the parts between a scenario's events, where there are any and the generator can tell.
    p99_by_second_ms: of the requests of each second, as far as it can tell (None: none succeeded).
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
    phases: tuple["Outcome", ...] = ()
    p99_by_second_ms: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One server at one moment, from counters that only grow; at_s is the monotonic clock's.

    pool_utilization: of its workers, in its agent's newest sample; None: it has none.
    """

    at_s: float
    server: str
    served: int
    cpu_s: float
    pool_utilization: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One server in the `interval_s` that ended at t_s (seconds since the load began).

    share: of what all servers answered in it (None: nothing was answered).
    cpu_utilization: of its limit, or of one core where it has none. pool_utilization: of its
    workers, at the interval's end; None: it has none.
    """

    t_s: float
    interval_s: float
    server: str
    served: int
    share: float | None
    cpu_utilization: float
    pool_utilization: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A finished trial. balancer_cpu_s: its user and system time meanwhile; None without a balancer.

    balancer_resident_bytes: its memory after the load; None where nobody asked.
    """

    trial: Trial
    generator: str
    outcome: Outcome
    observed: tuple[Observed, ...] = ()
    balancer_cpu_s: float | None = None
    balancer_resident_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An algorithm that was wanted and has no figures, and why."""

    scenario: str
    algorithm: str
    why: str


@dataclass(slots=True, kw_only=True)
class Results:
    """All that a comparison found so far: every finished trial, what is missing and why.

    limits: how the servers' were held, a sentence a scenario. conditions: in the order in which they are
    shown: command, machine, versions, how limits were held, date, load average before.
    """

    scenarios: tuple[Scenario, ...]
    measured: list[Measured] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    conditions: Mapping[str, str] = field(default_factory=dict)
    new: int = 0
    """Trials that were measured now, and not by an earlier run into the same folder."""
    interrupted: bool = False
