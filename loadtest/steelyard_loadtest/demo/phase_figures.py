"""What the demo tells: figures of seconds and thirds, the line while it runs, table, findings, files. Pure.

Percentiles are nearest-rank and over the requests that succeeded: a failure may
be quick, and would make the latencies look better than they are.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard_loadtest.demo.records import Observed, Phase, Plan
from steelyard_loadtest.generators.tally import Request
from steelyard_loadtest.measurements.percentiles import nearest_rank
from steelyard_loadtest.reporting import tables
from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.reporting.wording import clock, milliseconds, percent

BETWEEN_S = 8  # what starting locust and draining it take, about


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What happened from from_s to to_s. Shares are parts of the answered requests; None: nothing to say."""

    from_s: float
    to_s: float
    requests_per_s: float
    requests: int
    failures: int
    p50_ms: float | None
    p99_ms: float | None
    shares: dict[str, float | None]


Thirds = dict[str, Figures]
"""The figures of a phase's thirds by name: before, burning, after."""


def figures(sent: Sequence[Request], servers: Sequence[str], from_s: float, to_s: float) -> Figures:
    """Sum up the requests sent in [from_s, to_s), which is longer than 0 s."""
    here = [entry for entry in sent if from_s <= entry.due_s < to_s]
    good = sorted(entry.latency_ms for entry in here if not entry.failure)
    counts = Counter(entry.server for entry in here if entry.server in servers)
    answered = counts.total()
    return Figures(
        from_s=from_s,
        to_s=to_s,
        requests_per_s=len(here) / (to_s - from_s),
        requests=len(here),
        failures=len(here) - len(good),
        p50_ms=nearest_rank(good, 0.50),
        p99_ms=nearest_rank(good, 0.99),
        shares={server: counts[server] / answered if answered else None for server in servers},
    )


def per_second(phase: Phase, servers: Sequence[str]) -> list[Figures]:
    """Sum up each whole second that was measured."""
    by_second = grouped(phase.sent, lambda entry: int(entry.due_s))
    seconds = range(math.floor(phase.measured_s))
    return [figures(by_second.get(second, []), servers, second, second + 1) for second in seconds]


def thirds(phase: Phase, servers: Sequence[str]) -> Thirds:
    """Sum up the thirds, cut where the burn began and ended, as far as they were measured for a second."""
    burn_from_s, burn_to_s = phase.burn or (phase.planned_s / 3, phase.planned_s * 2 / 3)
    cuts = (("before", 0.0, burn_from_s), ("burning", burn_from_s, burn_to_s), ("after", burn_to_s, math.inf))
    return {
        name: figures(phase.sent, servers, from_s, min(to_s, phase.measured_s))
        for name, from_s, to_s in cuts
        if min(to_s, phase.measured_s) - from_s >= 1
    }


def describe(plan: Plan, t_s: float, *, burning: bool, observed: Sequence[Observed], phases_left: int) -> str:
    """Say in a line where the phase is, the time left in all, and the newest weights."""
    left_s = plan.seconds - t_s + phases_left * (plan.seconds + BETWEEN_S)
    parts = [f"{plan.title}: {t_s:.0f} of {plan.seconds} s, {clock(left_s)} left"]
    if burning:
        parts.append("burning CPU")
    newest = [f"{entry.server} {percent(entry.weight_share)}" for entry in observed[-len(plan.servers) :]]
    if newest and not plan.static:
        parts.append(f"weights {', '.join(newest)}")
    return " · ".join(parts)


def table(phases: Mapping[str, Thirds], servers: Sequence[str]) -> str:
    """Lay out one line per phase (by title) and third, shares last."""
    head = ["", "", "requests/s", "failed", "p50 ms", "p99 ms", *servers]
    body = [
        [
            title if third == next(iter(rows)) else "",
            third,
            f"{figures.requests_per_s:.0f}",
            str(figures.failures),
            milliseconds(figures.p50_ms),
            milliseconds(figures.p99_ms),
            *(percent(figures.shares[server]) for server in servers),
        ]
        for title, rows in phases.items()
        for third, figures in rows.items()
    ]
    return tables.text(tables.text_columns(head, body, left=2))


def finding(rows: Thirds, burned: str) -> str:
    """Say in one line what a phase shows: the burned server's share, and p99 before and during the burn."""
    before, burning = rows.get("before"), rows.get("burning")
    if before is None or burning is None:
        return "interrupted before the burn"
    share = f"{percent(before.shares.get(burned))} → {percent(burning.shares.get(burned))} of requests"
    return f"{burned}: {share}, p99 {milliseconds(before.p99_ms)} → {milliseconds(burning.p99_ms)} ms"


def summary(
    conditions: Mapping[str, object], phases: Sequence[Phase], thirds: Mapping[str, Thirds]
) -> dict[str, object]:
    """Return the conditions, and each phase's burn and thirds; `thirds` is by the phase's name."""
    told = [
        {name: getattr(phase, name) for name in ("name", "title", "planned_s", "measured_s")}
        | {"burn_s": phase.burn, "thirds": thirds[phase.name]}
        for phase in phases
    ]
    return {**conditions, "phases": told}
