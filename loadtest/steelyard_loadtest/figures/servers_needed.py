"""The number of servers that a load needs with each algorithm, at one p99. Pure.

    bound   = times * p99_reference(lowest level)
    L       = the highest load whose p99 stays within the bound
    servers = n L_reference / L

Between two levels, the logarithm of p99 is taken to be linear in the load. A level at which more than 0.1 %
of the requests failed is beyond the bound. The number assumes that a fleet of other size and the same mixture
carries a load in proportion.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from steelyard_loadtest.figures.trial_figures import Summary
from steelyard_loadtest.figures.verdict import FAILURES_AT_MOST
from steelyard_loadtest.scenario.definition import Fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A load; at_least: only a lower bound of it is known, because no higher level has a p99."""

    level: float
    at_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One algorithm's load at the bound, and its servers.

    carried  None: p99 is over the bound at the lowest level already
    servers  None: `carried`, or the reference's, is not known
    bound    of `servers`: `≤ ` if it is the largest possible number, `≥ ` if it is the least possible one
    """

    algorithm: str
    carried: Carried | None
    servers: float | None
    bound: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The needs of all algorithms, the least first, and the reference's p99 at the lowest level."""

    fleet: Fleet
    lowest: float
    unloaded_ms: float
    each: tuple[Need, ...]

    @property
    def bound_ms(self) -> float:
        """Return the largest p99 that is within the bound."""
        return self.fleet.p99_times * self.unloaded_ms

    def of(self, algorithm: str) -> Need | None:
        """Return an algorithm's need; None if it was not measured."""
        return next((need for need in self.each if need.algorithm == algorithm), None)


def needs(summaries: Sequence[Summary], fleet: Fleet | None, servers: int) -> Needs | None:
    """Return the needs of all algorithms; None without the reference at the lowest level."""
    if fleet is None or not summaries:
        return None
    lowest = min(summary.level for summary in summaries)
    p99s: dict[str, dict[float, float | None]] = {}
    for one in summaries:
        p99 = one.metrics.get("p99_ms")
        within = p99 is not None and one.failures_part <= FAILURES_AT_MOST
        p99s.setdefault(one.algorithm, {})[one.level] = p99.median if p99 and within else None
    unloaded_ms = p99s.get(fleet.reference, {}).get(lowest)
    if unloaded_ms is None:
        return None
    carried = {name: highest_load(own, fleet.p99_times * unloaded_ms) for name, own in p99s.items()}
    each = [
        Need(algorithm=name, carried=own, servers=float(servers) if own else None)
        if name == fleet.reference
        else _need(name, own, carried[fleet.reference], servers)
        for name, own in carried.items()
    ]
    each.sort(key=lambda need: math.inf if need.servers is None else need.servers)
    return Needs(fleet=fleet, lowest=lowest, unloaded_ms=unloaded_ms, each=tuple(each))


def highest_load(p99s_ms: Mapping[float, float | None], bound_ms: float) -> Carried | None:
    """Return the highest load up to which p99 stays within the bound, from p99 by level.

    p99 None: not known, or too many requests failed. Returns None if the lowest level is over the bound.
    """
    levels = sorted(p99s_ms.items())
    if not levels or not _within(levels[0][1], bound_ms):
        return None
    for (level, p99_ms), (next_level, next_ms) in pairwise(levels):
        if _within(next_ms, bound_ms):
            continue
        if next_ms is None or p99_ms is None:
            return Carried(level=level, at_least=True)
        part = math.log(bound_ms / p99_ms) / math.log(next_ms / p99_ms)
        return Carried(level=level + (next_level - level) * part)
    return Carried(level=levels[-1][0], at_least=True)


def _within(p99_ms: float | None, bound_ms: float) -> bool:
    return p99_ms is not None and p99_ms <= bound_ms


def _need(algorithm: str, own: Carried | None, reference: Carried | None, servers: int) -> Need:
    if own is None or reference is None:
        return Need(algorithm=algorithm, carried=own, servers=None)
    if own.at_least and reference.at_least:
        return Need(algorithm=algorithm, carried=own, servers=None)
    bound = "≥ " if reference.at_least else "≤ " if own.at_least else ""
    return Need(algorithm=algorithm, carried=own, servers=servers * reference.level / own.level, bound=bound)
