"""The evidence about the peers before a window: fading sums of load and requests, and costs. Pure."""

from dataclasses import dataclass, replace

import numpy as np

from steelyard_controller.laws.small_arrays import clip
from steelyard_controller.laws.snapshot import Floats, indicator_column
from steelyard_controller.laws.steelyard.busyness import Busyness
from steelyard_controller.laws.steelyard.inputs import Inputs

# The columns of sums and windows.
REQUESTS, BUSY, SECONDS, FULL_SECONDS = range(4)
# The further columns of moments: sums of squared rate, of rate times load, and of squared load.
RATE_SQUARED, RATE_LOAD, LOAD_SQUARED = range(3, 6)

# Fewer requests in a window show neither dispersion nor queues.
FEWEST_REQUESTS = 5.0
# Loads differ by this much for no reason: sampling, kernels, the runtime's own threads.
IDLE_LOAD = 0.02
# After this number of windows with requests, a peer's cost is known and changes slowly.
YOUNG_WINDOWS = 10.0
# Evidence below this has faded: six idle hours would make it underflow.
FADED = 1e-9
# A cost outside of these bounds comes from a broken reader. No quotient overflows within them.
COST_MIN, COST_MAX = 1e-9, 1e9
# No limit changes by more than this factor at once, except with a broken reader.
LARGEST_STEP = 64.0

# Fields that the memory holds under the same names.
REMEMBERED = ("sums", "moments", "others", "recent", "requests", "cost", "windows", "restarts", "cores")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence about m upstreams of k peers. Load is a part of the peer's tightest resource.

    sums       k x 4, A, B, D, F: requests, load seconds, seconds, seconds full; fading, since a restart
    moments    k x 6: see `capacity_estimate`; fading as sums do
    others     k, w_0: load that is known not to be ours
    recent     k x 3 RECENT_WINDOWS: requests, load seconds and seconds of each of the last windows
    requests   k, A': remembered for hours, across restarts; weighed against the prior
    cost       k, load seconds of a request without neighbours; NaN before the first
    windows    k, number of windows with requests, from which the cost was learnt
    jumps      k, J: restarts, fading
    restarts   k, all of them
    cores      k, the CPU limit behind the loads; NaN: unknown
    dispersion, in_flight_at_half   m x 1, disp and V_half
    """

    sums: Floats
    moments: Floats
    others: Floats
    recent: Floats
    requests: Floats
    cost: Floats
    windows: Floats
    jumps: Floats
    restarts: Floats
    cores: Floats
    dispersion: Floats
    in_flight_at_half: Floats


def recall_evidence(inputs: Inputs, busyness: Busyness) -> Evidence:
    """Return the evidence before this tick's window, scaled to the peers' present limits.

        B, cost  *=  cores before/cores now        if the CPU is the tightest resource

    A halved quota doubles the load of the same work. If another resource is the tightest, it changes nothing.
    """
    snapshots, previous, previous_scalars = inputs.snapshots, inputs.previous, inputs.previous_scalars
    cores_before = previous["cores"]
    cores = np.where(busyness.sampled, snapshots.capacity[..., 0], np.nan)
    cores = np.where(cores > 0, cores, cores_before)
    ratio = clip(cores_before / cores, 1.0 / LARGEST_STEP, LARGEST_STEP)
    cpu = indicator_column(busyness.residual, snapshots.indicators, "cpu")
    ratio = np.where((cpu <= 1.0 - busyness.load) & ~np.isnan(ratio), ratio, 1.0)
    cost = np.where(previous["cost"] > 0, previous["cost"], np.nan)  # a damaged memory may have any
    evidence = Evidence(
        **{name: previous[name] for name in REMEMBERED} | {"cost": cost, "cores": cores},
        jumps=previous["J"],
        dispersion=previous_scalars["disp"],
        in_flight_at_half=previous_scalars["in_flight_at_half"],
    )
    return _rescaled(evidence, ratio)


def _rescaled(evidence: Evidence, ratio: Floats) -> Evidence:
    """Return the evidence with every load multiplied by `ratio` (k)."""
    if (ratio == 1.0).all():
        return evidence
    sums, moments, recent = evidence.sums.copy(), evidence.moments.copy(), evidence.recent.copy()
    sums[..., BUSY] *= ratio
    moments[..., BUSY] *= ratio
    moments[..., RATE_LOAD] *= ratio
    moments[..., LOAD_SQUARED] *= ratio * ratio
    recent[..., BUSY::3] *= ratio[..., None]
    cost = clip(evidence.cost * ratio, COST_MIN, COST_MAX)
    others = evidence.others * ratio
    return replace(evidence, sums=sums, moments=moments, others=others, recent=recent, cost=cost)
