"""Headroom: the load that an upstream carries, could carry and has left; the figure to scale by. Pure.

    carries = EWMA over 10 s of sum_j (n_j + failed_j)/T       requests per second
    could_j = (1 - H) c_j slow_j err_j                         for a server that counts; 0 for others
    could   = least of  sum could_j/sum s_j  and  could_i/s_i  j: servers whose share follows c; i: others
    left    = could - carries,   ratio = clip(left/could, 0, 1)

Letters are those of docs/control-law.md; s is a server's share of the requests. The capacity c = (1 - w)/e
excludes others' load. From the load 1 - H on, the law sees high load. A pinned server gets its share at any
capacity. So does every server under a law that learns no capacity. Slow start is left out: otherwise an
autoscaler's new server would count little, and another one would be started for the same need.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, isnan

import numpy as np
from msgspec import Struct

from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.presentation import in_percent
from steelyard_controller.laws.snapshot import Bools, Floats

# A tick's count of 100 requests/s is off by a tenth, this by 2 %. Scaling uses the mean of a minute.
SMOOTHING_S = 10.0
# A late report does not mean less traffic.
PATIENCE_TICKS = 3
# Below this part, the capacity is mostly the declared one: no reason to start or stop a server.
LEAST_LEARNT = 0.5


class Carried(Struct, frozen=True):
    """Requests per second that end, well or badly, smoothed; None: no reports."""

    per_s: float | None = None
    unreported_ticks: int = 0

    def after(self, now_per_s: float, tick_s: float) -> "Carried":
        """Return the rate after a tick with `ended_per_s`; NaN: not reported."""
        if isnan(now_per_s):
            ticks = self.unreported_ticks + 1
            return Carried(per_s=self.per_s if ticks <= PATIENCE_TICKS else None, unreported_ticks=ticks)
        if self.per_s is None:
            return Carried(per_s=now_per_s)
        return Carried(per_s=now_per_s + exp(-tick_s / SMOOTHING_S) * (self.per_s - now_per_s))


def ended_per_s(completed: Floats, failed: Floats, tick_s: float) -> Floats:
    """Return the requests per second that ended in a tick, well or badly; NaN if none is reported.

    The counts of k peers give one figure, and those of m upstreams, m x k, give m.
    """
    reported = ~np.isnan(completed)
    ended = np.add.reduce(completed + failed, axis=-1, where=reported) / tick_s
    return np.where(np.logical_or.reduce(reported, axis=-1), ended, np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Requests per second that an upstream could carry, carries, and has left (below 0: it lacks servers).

    ratio     part of `could_carry_per_s` that is left, 0..1
    learnt    part of `could_carry_per_s` that was seen and is not assumed, 0..1
    servers   number of servers that count
    unknown   reason for figures that are None; None: all are known
    """

    could_carry_per_s: float | None = None
    carries_per_s: float | None = None
    left_per_s: float | None = None
    ratio: float | None = None
    learnt: float | None = None
    servers: int = 0
    unknown: str | None = None


def headroom(
    decision: Decision, shadows: Iterable[Decision], share: Floats, counts: Bools, carries_per_s: float | None
) -> Headroom:
    """Return an upstream's headroom from the capacities of the live law, or else of a shadow.

    share    k, share of the requests; 0: it gets none
    counts   k, whether a server's capacity is available: it gets requests, is measured and stays
    """
    learner = next(filter(_learns, (decision, *(part for _, part in decision.parts), *shadows)), None)
    if learner is None:
        why = f"the law {decision.law} learns no capacity; declare steelyard as a shadow"
        return Headroom(carries_per_s=carries_per_s, unknown=why)
    figures = learner.columns
    counts = counts & (figures["away"] == 0)
    servers = int(counts.sum())
    if servers == 0:
        why = "no server gets requests, is measured and stays"
        return Headroom(carries_per_s=carries_per_s, unknown=why)
    able = learner.capacity_estimate * figures["slow"] * figures["err"]
    able = np.where(counts, (1.0 - learner.parameters["H"]) * able, 0.0)
    learnt = float(np.dot(able, 1.0 - figures["prior_share"]) / able.sum())
    if learnt < LEAST_LEARNT:
        why = f"too few requests yet: {in_percent(learnt)} of the capacity is learnt"
        return Headroom(carries_per_s=carries_per_s, learnt=learnt, servers=servers, unknown=why)
    could = _together(able, share, counts, ~np.isnan(figures["pinned"]) | (learner.law != decision.law))
    left = None if carries_per_s is None else could - carries_per_s
    return Headroom(
        could_carry_per_s=could,
        carries_per_s=carries_per_s,
        left_per_s=left,
        ratio=None if left is None else min(max(left / could, 0.0), 1.0),
        learnt=learnt,
        servers=servers,
        unknown="no load balancer reports traffic" if left is None else None,
    )


def _learns(decision: Decision) -> bool:
    return not decision.parts and "prior_share" in decision.columns


def _together(able: Floats, share: Floats, counts: Bools, fixed: Bools) -> float:
    """Return the rate at which the first server is full: those that share together, or one of `fixed`."""
    alone = fixed & counts
    ends: list[float] = (able[alone] / share[alone]).tolist()
    if (~fixed & counts).any():
        ends.append(float(able[~fixed].sum() / share[~fixed].sum()))
    return min(ends)
