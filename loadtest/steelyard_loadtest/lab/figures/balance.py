"""How evenly the servers were used. Pure."""

from collections.abc import Sequence

from steelyard_loadtest.lab.figures.stretches import takes_part
from steelyard_loadtest.lab.records import Observed
from steelyard_loadtest.lab.scenario.model import Event


def jain(values: Sequence[float]) -> float | None:
    """Return Jain's fairness index, 1/n (one has all) to 1 (all alike); None when all are 0.

    (sum x)^2 / (n sum x^2): Jain, Chiu, Hawe, DEC-TR-301, 1984.
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def max_over_mean(values: Sequence[float]) -> float | None:
    """Return the largest over the mean, 1 (all alike) to n (one has all); None when all are 0."""
    total = sum(values)
    return max(values) * len(values) / total if total > 0 else None


def utilizations(observed: Sequence[Observed], events: Sequence[Event]) -> dict[str, float]:
    """Return the mean CPU utilization of each server over the time in which it took part."""
    busy_s: dict[str, float] = {}
    seen_s: dict[str, float] = {}
    for entry in observed:
        middle_s = entry.t_s - entry.interval_s / 2
        if not takes_part(events, entry.server, middle_s):
            continue
        busy_s[entry.server] = busy_s.get(entry.server, 0.0) + entry.cpu_utilization * entry.interval_s
        seen_s[entry.server] = seen_s.get(entry.server, 0.0) + entry.interval_s
    return {server: busy_s[server] / seconds for server, seconds in seen_s.items() if seconds > 0}


def shares(observed: Sequence[Observed]) -> dict[str, float]:
    """Return each server's part of all that was answered; empty when nothing was."""
    served: dict[str, int] = {}
    for entry in observed:
        served[entry.server] = served.get(entry.server, 0) + entry.served
    total = sum(served.values())
    return {server: count / total for server, count in served.items()} if total else {}
