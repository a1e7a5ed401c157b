"""The figures of one trial (latencies, balance of the servers), and of its repeats together. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from steelyard_loadtest.figures import evenness, fair_share, motion
from steelyard_loadtest.measurements.trials import PERCENTILES, Measured, Observed, Outcome, latency_at
from steelyard_loadtest.reporting.statistics import Spread, grouped, spread_of
from steelyard_loadtest.scenario.definition import Event, Server


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFigures:
    """One line of results.csv; `columns.DEFINITIONS` defines each figure.

    metrics: figures that can be averaged, by column. None: unknown here. Infinite: shares did not settle.
    phases_p99_ms: by phase, `FROM-TO` in seconds; none if there is only one.
    """

    measured: Measured
    metrics: Mapping[str, float | None]
    shares: Mapping[str, float]
    utilizations: Mapping[str, float]
    phases_p99_ms: Mapping[str, float | None]


def figures(measured: Measured, events: Sequence[Event], servers: Sequence[Server] = ()) -> TrialFigures:
    """Work out the figures of a trial; `events` and `servers` are its scenario's."""
    outcome = measured.outcome
    seconds = outcome.seconds
    succeeded = outcome.requests - outcome.failures
    per_second = 1 / seconds if seconds > 0 else 0.0
    cut = motion.stretches(events, seconds)
    # The last reading is taken after the load.
    seen = [entry for entry in measured.observed if entry.t_s - entry.interval_s / 2 <= seconds]
    settled = [motion.settle_s(seen, stretch) for stretch in cut]
    after = [took_s for took_s in settled[1:] if took_s is not None]
    used = utilizations(seen, events)
    cpu_s = measured.balancer_cpu_s
    phases = dict(_phases_p99_ms(outcome))
    metrics = {
        "requests": outcome.requests,
        "failures": outcome.failures,
        "failures_part": outcome.failures / outcome.requests if outcome.requests else 0.0,
        "requests_per_s": outcome.requests * per_second,
        "succeeded_per_s": succeeded * per_second,
        "failures_per_s": outcome.failures * per_second,
        **{name: latency_at(outcome.quantiles, part, succeeded) for name, part in PERCENTILES.items()},
        "mean_ms": outcome.mean_ms,
        "min_ms": outcome.min_ms,
        "max_ms": outcome.max_ms,
        # The generator's own figure, or Little's law: requests in flight = rate x time in the system.
        "concurrency": outcome.concurrency or succeeded * per_second * (outcome.mean_ms or 0.0) / 1000,
        "generator_cpu_utilization": outcome.generator_cpu_utilization,
        "balancer_cpu_us_per_request": cpu_s * 1e6 / outcome.requests if cpu_s and outcome.requests else None,
        "balancer_cpu_cores": cpu_s * per_second if cpu_s and seconds > 0 else None,
        "balancer_resident_bytes": measured.balancer_resident_bytes,
        "jain_utilization": jain(list(used.values())),
        "utilization_ratio": evenness.utilization_ratio(seen, servers, events) if servers else None,
        "median_utilization_ratio": evenness.median_utilization_ratio(seen, servers, events)
        if servers
        else None,
        "settle_s": settled[0] if settled else None,
        "settle_after_event_s": max(after) if after else None,
        "share_error": fair_share.share_error(seen, servers, events) if servers else None,
        "crossing": crossing(shares(seen), servers),
        "slowest_phase": slowest_phase(list(phases.values())),
        "recovery_s": fair_share.recovery_s(seen, servers, events, seconds) if servers else None,
    }
    return TrialFigures(
        measured=measured,
        metrics=metrics,
        shares=shares(seen),
        utilizations=used,
        phases_p99_ms=phases,
    )


def _phases_p99_ms(outcome: Outcome) -> Iterator[tuple[str, float | None]]:
    began_s = 0.0
    for phase in outcome.phases:
        ended_s = began_s + phase.seconds
        succeeded = phase.requests - phase.failures
        yield f"{began_s:g}-{ended_s:g}", latency_at(phase.quantiles, 0.99, succeeded)
        began_s = ended_s


def slowest_phase(p99s_ms: Sequence[float | None]) -> float | None:
    """Return the largest p99 of a phase over the first phase's; None if one is not known."""
    known = [ms for ms in p99s_ms if ms is not None]
    return max(known) / known[0] if known and len(known) == len(p99s_ms) and known[0] > 0 else None


def crossing(shares: Mapping[str, float], servers: Sequence[Server]) -> float | None:
    """Return the part of the answers from zones other than the first server's; None without zones."""
    if not shares or not servers or not servers[0].zone:
        return None
    return sum(shares.get(server.name, 0.0) for server in servers if server.zone != servers[0].zone)


def jain(values: Sequence[float]) -> float | None:
    """Return Jain's fairness index, 1/n (one has all) to 1 (all alike); None when all are 0.

    (sum x)^2 / (n sum x^2): Jain, Chiu, Hawe, DEC-TR-301, 1984.
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def utilizations(observed: Sequence[Observed], events: Sequence[Event]) -> dict[str, float]:
    """Return the mean CPU utilization of each server over its time of service."""
    there = [
        entry
        for entry in observed
        if motion.takes_part(events, entry.server, entry.t_s - entry.interval_s / 2)
    ]
    return {
        server: sum(entry.cpu_utilization * entry.interval_s for entry in own) / seconds
        for server, own in grouped(there, lambda entry: entry.server).items()
        if (seconds := sum(entry.interval_s for entry in own)) > 0
    }


def shares(observed: Sequence[Observed]) -> dict[str, float]:
    """Return each server's part of all answers; empty without answers."""
    served: Counter[str] = Counter()
    for entry in observed:
        served[entry.server] += entry.served
    return {server: count / served.total() for server, count in served.items()} if served.total() else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All repeats of one algorithm at one level. A metric that no repeat knows is not in `metrics`."""

    scenario: str
    algorithm: str
    level: float
    trials: tuple[TrialFigures, ...]
    metrics: Mapping[str, Spread]

    @property
    def failures(self) -> int:
        """Return the failures of all repeats."""
        return sum(one.measured.outcome.failures for one in self.trials)

    @property
    def failures_part(self) -> float:
        """Return the failures of all repeats over the requests of all, 0..1."""
        requests = sum(one.measured.outcome.requests for one in self.trials)
        return self.failures / requests if requests else 0.0


def summarize(repeats: Iterable[TrialFigures]) -> list[Summary]:
    """Combine the repeats, in the order in which scenario, level and algorithm first appear."""
    groups = grouped(repeats, lambda one: replace(one.measured.trial, repeat=0))
    return [
        Summary(
            scenario=trial.scenario,
            algorithm=trial.algorithm,
            level=trial.level,
            trials=tuple(trials),
            metrics={
                name: spread
                for name in trials[0].metrics
                if (spread := spread_of([one.metrics for one in trials], itemgetter(name)))
            },
        )
        for trial, trials in groups.items()
    ]
