"""Zones: near servers first until their headroom is used, then the others, without a jump. Pure.

    s_z      the zone's part of all weights                    D_z   requests/s of its load balancers
    left_z   s_z max(R, sum D)                                 R     could carry, less requests from no zone
    near_z   min(D_z, left_z),  over_z = D_z - near_z,  spare_z = left_z - near_z
    F_zy     near_z/D_z for y = z,  + over_z/D_z spare_y/sum spare

F_zy is the part of zone z's requests to servers of zone y. R comes from the headroom, at the load 1 - H where
high load begins. Above that load, all servers are equally busy, and each zone has the share of its weights.
No more requests cross zones than that takes. If the headroom is not known, this is always so; it is Envoy's
rule with weights instead of hosts. Every part is continuous in D, R and s. D does not depend on F, so there
is no loop that could oscillate.

The last row and column are "no zone": its load balancers use the weights alone, and its servers are spare.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

import numpy as np

from steelyard_controller.laws.snapshot import SMALLEST_FIGURE, Floats, Ints

# A second's count of 100 requests is off by a tenth, which would move requests to and fro at full headroom.
SMOOTHING_S = 5.0

# Largest factor of a zone's load balancers. The smallest is 1, a leak of a thousandth. So servers of a zone
# that gets nothing keep their proportions for a load balancer that has lost all others.
LARGEST_FACTOR = 1000

# A change of less than a hundredth is noise, and would rebuild rings.
FACTOR_STEP = 10


def parts(share: Floats, demand: Floats, could_carry_per_s: float | None) -> Floats:
    """Return F from the zones' shares of the weights and the requests per second of their load balancers."""
    own = np.append(demand[:-1], 0.0)
    left = share * max((could_carry_per_s or 0.0) - demand[-1], own.sum())
    near = np.minimum(own, left)
    spare = left - near
    far = spare / spare.sum() if spare.sum() > 0 else share
    # A zone without requests starts with its own servers.
    is_near = np.where(own > 0, near / np.where(own > 0, own, 1.0), left > 0)
    by_zone: Floats = np.diag(is_near) + np.outer(1.0 - is_near, far)
    by_zone[-1] = share
    return by_zone


def factors(by_zone: Floats, share: Floats) -> Ints:
    """Return the factors of each zone's load balancers for the weights of each zone's servers."""
    times = np.divide(by_zone, share, out=np.zeros(by_zone.shape), where=share > 0)
    largest = times.max(axis=1, keepdims=True)
    scaled = np.divide(times, largest, out=np.ones(times.shape), where=largest > 0)
    stepped = np.rint(scaled * LARGEST_FACTOR / FACTOR_STEP) * FACTOR_STEP
    whole: Ints = np.maximum(stepped, 1.0).astype(np.int64)
    return whole


def mixed(published: Ints, share: Floats, demand: Floats) -> Floats:
    """Return the factors of all load balancers together for each zone's weights, by the published factors."""
    by_zone = published * share
    by_zone = by_zone / np.maximum(by_zone.sum(axis=1, keepdims=True), SMALLEST_FIGURE)
    together = demand @ by_zone / demand.sum() if demand.sum() > 0 else share
    return np.divide(together, share, out=np.ones(share.shape), where=share > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Zoning:
    """The state of an upstream's zones between ticks; the last zone is "no zone".

    of        k, the number of each server's zone
    per_s     requests per second from each zone to each, smoothed; None: none were seen
    share     part of each zone in the last weights
    factors   published factors of each zone's load balancers for each zone's servers
    """

    of: Ints
    per_s: Floats | None = None
    share: Floats
    factors: Ints

    @classmethod
    def of_peers(cls, of: Sequence[int], zones: int) -> "Zoning":
        """Return the first state for a number of zones, in which all factors are equal."""
        factors = np.full((zones + 1, zones + 1), LARGEST_FACTOR)
        return cls(of=np.array(of, dtype=np.int64), share=np.ones(zones + 1), factors=factors)

    def none(self) -> Floats:
        """Return zero requests between all zones."""
        return np.zeros(self.factors.shape)

    def after(self, seen: Floats, tick_s: float) -> "Zoning":
        """Return the state after a tick with `seen` requests per second from each zone to each."""
        before = seen if self.per_s is None else self.per_s
        return replace(self, per_s=seen + exp(-tick_s / SMOOTHING_S) * (before - seen))

    def followed(self, weights: Floats | Ints, seen: Floats) -> Floats:
        """Return the weights, k, that all of these requests followed together: each server's due part."""
        followed: Floats = weights * mixed(self.factors, self.share, seen.sum(axis=1))[self.of]
        return followed

    def decide(self, share: Floats, could_carry_per_s: float | None) -> "Zoning":
        """Return the state with factors for the servers' shares of the weights, k; 0: it gets no requests."""
        by_zone: Floats = np.bincount(self.of, weights=share, minlength=len(self.share)).astype(float)
        demand = np.zeros(len(by_zone)) if self.per_s is None else self.per_s.sum(axis=1)
        new = factors(parts(by_zone, demand, could_carry_per_s), by_zone)
        return replace(self, share=by_zone, factors=new)
