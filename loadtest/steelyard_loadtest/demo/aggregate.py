"""From requests to figures per second and per third of a phase. Pure.

Percentiles are nearest-rank and over the requests that succeeded: a failure may
be quick, and would make the latencies look better than they are.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard_loadtest.demo.records import Phase, Sent


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Third:
    """One third of a phase under its name: before, burning or after."""

    name: str
    figures: Figures


def percentile(ordered: Sequence[float], part: float) -> float | None:
    """Give the nearest-rank percentile (part in 0..1) of ascending values; None if there are none."""
    if not ordered:
        return None
    return ordered[max(math.ceil(part * len(ordered)), 1) - 1]


def figures(sent: Sequence[Sent], servers: Sequence[str], from_s: float, to_s: float) -> Figures:
    """Sum up the requests sent in [from_s, to_s), which is longer than 0 s."""
    here = [entry for entry in sent if from_s <= entry.t_s < to_s]
    good = sorted(entry.latency_ms for entry in here if not entry.failed)
    counts = Counter(entry.server for entry in here if entry.server in servers)
    answered = counts.total()
    return Figures(
        from_s=from_s,
        to_s=to_s,
        requests_per_s=len(here) / (to_s - from_s),
        requests=len(here),
        failures=len(here) - len(good),
        p50_ms=percentile(good, 0.50),
        p99_ms=percentile(good, 0.99),
        shares={server: counts[server] / answered if answered else None for server in servers},
    )


def per_second(phase: Phase, servers: Sequence[str]) -> list[Figures]:
    """Sum up each whole second that was measured."""
    by_second: dict[int, list[Sent]] = {}
    for entry in phase.sent:
        by_second.setdefault(int(entry.t_s), []).append(entry)
    seconds = range(math.floor(phase.measured_s))
    return [figures(by_second.get(second, []), servers, second, second + 1) for second in seconds]


def thirds(phase: Phase, servers: Sequence[str]) -> list[Third]:
    """Sum up the thirds that were measured, cut where the burn began and ended.

    A third that was interrupted is summed up as far as it went; one of less than a
    second is left out.
    """
    burn_from_s, burn_to_s = phase.burn or (phase.planned_s / 3, phase.planned_s * 2 / 3)
    cuts = (("before", 0.0, burn_from_s), ("burning", burn_from_s, burn_to_s), ("after", burn_to_s, math.inf))
    return [
        Third(name=name, figures=figures(phase.sent, servers, from_s, min(to_s, phase.measured_s)))
        for name, from_s, to_s in cuts
        if min(to_s, phase.measured_s) - from_s >= 1
    ]
