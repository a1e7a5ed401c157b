"""The measurements of one trial of a comparison, second by second, from counters. Pure.

A trial is one algorithm at one level of load, once. Latencies are those of successful requests, because a
failure may be quick and would flatter. Percentiles are by nearest rank. The simulator's interpolate, as the
ns-3 study's do (`studies/measures.py` there); wrk has its own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from steelyard_loadtest.measurements.capacity import Capacity
from steelyard_loadtest.scenario.definition import Scenario, Server

PERCENTILES = {"p50_ms": 0.5, "p75_ms": 0.75, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}
"""Points of a distribution besides its ends: by the column, the part of the requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """A point of the latency distribution: `part` (0..1) of the requests took at most `ms`."""

    part: float
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measurement. level: users, connections, requests/s, or the part of the capacity."""

    scenario: str
    algorithm: str
    level: float
    repeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A generator's observations.

    requests                    in `seconds`, including failures: sent (locust), due (open) or ended (wrk)
    quantiles                   ascending, at PERCENTILES; empty without success
    concurrency                 requests in flight on average
    kinds                       failures by kind (`502`, `timeout`, `refused`, ...)
    generator_cpu_utilization   the generator's own, of one core; near 1 it was the bottleneck, not the
                                servers
    phases                      the parts between a scenario's events, if the generator can separate them
    p99_by_second_ms            of the requests of each second, as far as known (None: none succeeded)
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

    pool_utilization: of its workers, in its agent's newest sample; None without a pool. children_cpu_s: the
    part of cpu_s that a neighbour's processes used.
    """

    at_s: float
    server: str
    served: int
    cpu_s: float
    pool_utilization: float | None = None
    children_cpu_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One server in the `interval_s` that ended at t_s (seconds since the load began).

    share                     of all servers' answers in it (None: no answers)
    cpu_utilization           of its limit, or of one core
    pool_utilization          of its workers, at the interval's end; None without a pool
    children_cpu_utilization  the part of cpu_utilization that a neighbour's processes used
    """

    t_s: float
    interval_s: float
    server: str
    served: int
    share: float | None
    cpu_utilization: float
    pool_utilization: float | None = None
    children_cpu_utilization: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A finished trial; None without a balancer.

    balancer_cpu_s: its user and system time meanwhile. balancer_resident_bytes: its memory after the load.
    """

    trial: Trial
    generator: str
    outcome: Outcome
    observed: tuple[Observed, ...] = ()
    balancer_cpu_s: float | None = None
    balancer_resident_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A requested algorithm without figures, and the reason."""

    scenario: str
    algorithm: str
    why: str


@dataclass(slots=True, kw_only=True)
class Results:
    """All results of a comparison so far: every finished trial, and the missing ones with reasons.

    limits      how the servers' limits were held, a sentence a scenario
    capacities  the servers', by each scenario whose levels are parts of it
    conditions  in the order of the page: command, date, machine, load average before, versions, limits
    """

    scenarios: tuple[Scenario, ...]
    measured: list[Measured] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    capacities: dict[str, Capacity] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    new: int = 0
    """Trials that were measured now, and not by an earlier run into the same folder."""
    interrupted: bool = False


INTERVAL_S = 1.0
"""A second is the agents' and the controller's tick."""


def observed(
    readings: Sequence[tuple[Reading, ...]], began_s: float, servers: Sequence[Server]
) -> tuple[Observed, ...]:
    """Return each server's intervals of about INTERVAL_S, from rounds of readings in order of time.

    A server without a CPU limit counts as one core. Readings before began_s only serve as the first
    interval's beginning.
    """
    intervals: list[Observed] = []
    limited = {server.name: server for server in servers}
    last: Sequence[Reading] = ()
    for entry in filter(None, readings):
        if not last or entry[0].at_s <= began_s:
            last = entry
        elif entry[0].at_s - last[0].at_s >= INTERVAL_S * 0.9:
            intervals += _interval(last, entry, began_s, limited)
            last = entry
    return tuple(intervals)


def _interval(
    earlier: Sequence[Reading], later: Sequence[Reading], began_s: float, limited: dict[str, Server]
) -> list[Observed]:
    old = {reading.server: reading for reading in earlier}
    pairs = [(old[reading.server], reading) for reading in later if reading.server in old]
    total = sum(after.served - before.served for before, after in pairs)
    return [
        Observed(
            t_s=later[0].at_s - began_s,  # one moment for all: they are read within a millisecond
            interval_s=after.at_s - before.at_s,
            server=after.server,
            served=after.served - before.served,
            share=(after.served - before.served) / total if total > 0 else None,
            cpu_utilization=(after.cpu_s - before.cpu_s) / _allowed_s(limited, before, after, began_s),
            pool_utilization=after.pool_utilization,
            children_cpu_utilization=(after.children_cpu_s - before.children_cpu_s)
            / _allowed_s(limited, before, after, began_s),
        )
        for before, after in pairs
        if after.at_s > before.at_s
    ]


def _allowed_s(limited: dict[str, Server], before: Reading, after: Reading, began_s: float) -> float:
    """Return the CPU seconds that a server's limit allowed between two readings."""
    middle_s = (before.at_s + after.at_s) / 2 - began_s
    return (after.at_s - before.at_s) * (limited[after.server].cores_at(middle_s) or 1.0)


def nearest_rank(ordered: Sequence[float], part: float) -> float | None:
    """Return the nearest-rank percentile (part in 0..1) of ascending values; None if there are none."""
    if not ordered:
        return None
    # Parts are decimal fractions: 0.07 * 100 is more than 7 in floating point.
    return ordered[max(math.ceil(round(part * len(ordered), 9)), 1) - 1]


def quantiles(latencies_ms: Sequence[float]) -> tuple[Quantile, ...]:
    """Return the latencies at PERCENTILES, by nearest rank; empty without latencies.

    latencies_ms ascending, in milliseconds.
    """
    points = ((part, nearest_rank(latencies_ms, part)) for part in PERCENTILES.values())
    return tuple(Quantile(part=part, ms=ms) for part, ms in points if ms is not None)


def latency_at(quantiles: Sequence[Quantile], part: float, succeeded: int) -> float | None:
    """Return the longest latency of `part` (0..1) of the requests, in ms; None if unknown.

    It is known if the generator gave that very point and at least one request is beyond it. p99.9 of 500
    requests would be their maximum under another name.
    """
    # The part is a decimal fraction: 1 / (1 - 0.99) is a little over 100.
    if part < 1 and succeeded < round(1 / (1 - part), 6):
        return None
    return next((point.ms for point in quantiles if math.isclose(point.part, part, abs_tol=1e-9)), None)
