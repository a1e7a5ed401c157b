"""Zones: near servers first until their headroom is used, then the others, without a cliff. Pure.

    s_z      the zone's part of all weights                    D_z   requests/s that its load balancers bring
    left_z   s_z max(R, sum D)                                 R     could carry, less what comes from nowhere
    near_z   min(D_z, left_z),  over_z = D_z - near_z,  spare_z = left_z - near_z
    F_zy     near_z/D_z where y is z,  + over_z/D_z spare_y/sum spare

F_zy is the part of zone z's requests that goes to the servers of y. Could carry is the headroom's: at a load
of 1 - H. Above it all servers are as busy as one another, each zone has the share that the weights give it,
and no more crosses than that takes; where it is not known, it is always so, which is Envoy's rule with
weights in the place of hosts. Every part is continuous in D, R and s; and D does not depend on F, so there is
no loop that could swing.

What is in no zone stands last: load balancers there go by the weights alone, and servers there are spare.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

import numpy as np

from steelyard_controller.laws.snapshot import SMALLEST_FIGURE, Floats, Ints

# A second's count of 100 requests is off by a tenth: at the end of the headroom that would cross to and fro.
SMOOTHING_S = 5.0

# Of the factors of a zone's load balancers the largest is this; the smallest 1, so that servers of a zone
# that gets nothing keep their proportions for whoever has lost all others. Its leak is a thousandth.
LARGEST_FACTOR = 1000

# A change of less than a hundredth is noise, and begins rings anew.
FACTOR_STEP = 10


def parts(share: Floats, demand: Floats, could_carry_per_s: float | None) -> Floats:
    """Return F, of the zones' shares of the weights and what their load balancers bring, per second."""
    own = np.append(demand[:-1], 0.0)
    left = share * max((could_carry_per_s or 0.0) - demand[-1], own.sum())
    near = np.minimum(own, left)
    spare = left - near
    far = spare / spare.sum() if spare.sum() > 0 else share
    # Who brings nothing yet begins near.
    is_near = np.where(own > 0, near / np.where(own > 0, own, 1.0), left > 0)
    by_zone: Floats = np.diag(is_near) + np.outer(1.0 - is_near, far)
    by_zone[-1] = share
    return by_zone


def factors(by_zone: Floats, share: Floats) -> Ints:
    """Return by what load balancers of each zone multiply the weights of the servers of each."""
    times = np.divide(by_zone, share, out=np.zeros(by_zone.shape), where=share > 0)
    largest = times.max(axis=1, keepdims=True)
    scaled = np.divide(times, largest, out=np.ones(times.shape), where=largest > 0)
    stepped = np.rint(scaled * LARGEST_FACTOR / FACTOR_STEP) * FACTOR_STEP
    told: Ints = np.maximum(stepped, 1.0).astype(np.int64)
    return told


def mixed(told: Ints, share: Floats, demand: Floats) -> Floats:
    """Return by what all load balancers together multiply the weights of each zone, who were told factors."""
    by_zone = told * share
    by_zone = by_zone / np.maximum(by_zone.sum(axis=1, keepdims=True), SMALLEST_FIGURE)
    together = demand @ by_zone / demand.sum() if demand.sum() > 0 else share
    return np.divide(together, share, out=np.ones(share.shape), where=share > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Zoning:
    """What is known of an upstream's zones from tick to tick; the last one is no zone.

    of        k, the number of each server's zone
    per_s     requests per second from each zone to each, smoothed; None: none were seen
    share     what the last weights give each zone
    factors   what load balancers of each zone were told for the servers of each
    """

    of: Ints
    per_s: Floats | None = None
    share: Floats
    factors: Ints

    @classmethod
    def of_peers(cls, of: Sequence[int], zones: int) -> "Zoning":
        """Return what is known of so many zones at first: nothing, and all factors are the same."""
        factors = np.full((zones + 1, zones + 1), LARGEST_FACTOR)
        return cls(of=np.array(of, dtype=np.int64), share=np.ones(zones + 1), factors=factors)

    def none(self) -> Floats:
        """Return no requests from any zone to any."""
        return np.zeros(self.factors.shape)

    def after(self, seen: Floats, tick_s: float) -> "Zoning":
        """Return it after a tick in which so many requests per second went from each zone to each."""
        before = seen if self.per_s is None else self.per_s
        return replace(self, per_s=seen + exp(-tick_s / SMOOTHING_S) * (before - seen))

    def followed(self, weights: Floats | Ints, seen: Floats) -> Floats:
        """Return the weights, k, that all those requests followed together: what a server is due of them."""
        followed: Floats = weights * mixed(self.factors, self.share, seen.sum(axis=1))[self.of]
        return followed

    def decide(self, share: Floats, could_carry_per_s: float | None) -> "Zoning":
        """Return it with factors for the servers' shares of the weights, k; 0: it gets no requests."""
        by_zone: Floats = np.bincount(self.of, weights=share, minlength=len(self.share)).astype(float)
        demand = np.zeros(len(by_zone)) if self.per_s is None else self.per_s.sum(axis=1)
        told = factors(parts(by_zone, demand, could_carry_per_s), by_zone)
        return replace(self, share=by_zone, factors=told)
