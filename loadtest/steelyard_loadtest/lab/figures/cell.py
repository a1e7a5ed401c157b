"""The figures of one cell. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard_loadtest.lab.figures import balance, latency, motion
from steelyard_loadtest.lab.figures.stretches import stretches
from steelyard_loadtest.lab.records import Measured
from steelyard_loadtest.lab.scenario.model import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFigures:
    """One line of results.csv; `definitions.DEFINITIONS` says what each figure is.

    None: cannot be known here. Infinite: shares did not settle.
    """

    scenario: str
    algorithm: str
    level: float
    repeat: int
    generator: str
    seconds: float
    requests: int
    failures: int
    failures_part: float
    requests_per_s: float
    succeeded_per_s: float
    failures_per_s: float
    p50_ms: float | None
    p75_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    mean_ms: float | None
    min_ms: float | None
    max_ms: float | None
    concurrency: float
    generator_cpu_utilization: float | None
    balancer_cpu_us_per_request: float | None
    balancer_cpu_cores: float | None
    max_over_mean_utilization: float | None
    jain_utilization: float | None
    settle_s: float | None
    settle_after_event_s: float | None
    oscillation: float | None
    shares: Mapping[str, float]
    utilizations: Mapping[str, float]
    failure_kinds: Mapping[str, int]


def figures(measured: Measured, events: Sequence[Event]) -> CellFigures:
    """Work out the figures of a cell; `events` are its scenario's."""
    outcome = measured.outcome
    seconds = outcome.seconds
    succeeded = outcome.requests - outcome.failures
    per_second = 1 / seconds if seconds > 0 else 0.0
    cut = stretches(events, seconds)
    # The last reading is taken when the load has gone.
    seen = [entry for entry in measured.observed if entry.t_s - entry.interval_s / 2 <= seconds]
    settled = [motion.settle_s(seen, stretch) for stretch in cut]
    after = [found for found in settled[1:] if found is not None]
    used = balance.utilizations(seen, events)
    cpu_s = measured.balancer_cpu_s
    return CellFigures(
        scenario=measured.cell.scenario,
        algorithm=measured.cell.algorithm,
        level=measured.cell.level,
        repeat=measured.cell.repeat,
        generator=measured.generator,
        seconds=seconds,
        requests=outcome.requests,
        failures=outcome.failures,
        failures_part=outcome.failures / outcome.requests if outcome.requests else 0.0,
        requests_per_s=outcome.requests * per_second,
        succeeded_per_s=succeeded * per_second,
        failures_per_s=outcome.failures * per_second,
        p50_ms=latency.at(outcome.quantiles, 0.5, succeeded),
        p75_ms=latency.at(outcome.quantiles, 0.75, succeeded),
        p90_ms=latency.at(outcome.quantiles, 0.9, succeeded),
        p99_ms=latency.at(outcome.quantiles, 0.99, succeeded),
        p999_ms=latency.at(outcome.quantiles, 0.999, succeeded),
        mean_ms=outcome.mean_ms,
        min_ms=outcome.min_ms,
        max_ms=outcome.max_ms,
        concurrency=_concurrency(measured),
        generator_cpu_utilization=outcome.generator_cpu_utilization,
        balancer_cpu_us_per_request=cpu_s * 1e6 / outcome.requests if cpu_s and outcome.requests else None,
        balancer_cpu_cores=cpu_s * per_second if cpu_s and seconds > 0 else None,
        max_over_mean_utilization=balance.max_over_mean(list(used.values())),
        jain_utilization=balance.jain(list(used.values())),
        settle_s=settled[0] if settled else None,
        settle_after_event_s=max(after) if after else None,
        oscillation=motion.oscillation(seen, cut),
        shares=balance.shares(seen),
        utilizations=used,
        failure_kinds=outcome.kinds,
    )


def _concurrency(measured: Measured) -> float:
    """What the generator says, or else Little's law: requests in flight = rate x time in the system."""
    outcome = measured.outcome
    if outcome.concurrency > 0 or not outcome.mean_ms or outcome.seconds <= 0:
        return outcome.concurrency
    return (outcome.requests - outcome.failures) / outcome.seconds * outcome.mean_ms / 1000
