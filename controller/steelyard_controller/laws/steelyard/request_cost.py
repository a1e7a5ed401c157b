"""What a request costs a peer, apart from the load that is not ours (step 4). Pure.

Sums are k x 4, or k x 3 without the last: requests, load seconds, seconds, seconds full.
"""

import numpy as np

from steelyard_controller.laws.small_arrays import anybody, clip, median, quotient, summed
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.steelyard_parameters import SteelyardParameters

REQUESTS, BUSY, SECONDS, FULL_SECONDS = range(4)

# Loads differ by this much for no reason: sampling, kernels, the runtime's own threads.
IDLE_LOAD = 0.02
# The cost is the lower edge of what is seen: others' work only ever adds to it. If it rose any sooner, a
# neighbour of some minutes would end as dearer requests, and the server would be starved after all.
YOUNG_WINDOWS = 10.0
COST_DOWN_PER_S, COST_UP_PER_S = 0.1, 1 / 100
# Nobody is told to be without any room; the law's floor is another.
MOST_NOT_OURS = 0.98
# Less evidence than this has faded: six idle hours would make it underflow.
FADED = 1e-9
# A cost outside of this is a broken reader's; no quotient overflows.
COST_MIN, COST_MAX = 1e-9, 1e9


def split(sums: Floats, cost: Floats, l0: float) -> tuple[Floats, Floats]:
    """Return e, load seconds a request, and w, load that is not ours; k each, e NaN where no cost is known.

    `sums` may have rows of such tables, and so has then what is returned.

    A load above what the known cost explains is a dearer request or somebody else's work, and one window
    cannot tell. Where our own load is large a dearer request is the likelier, where it is small the other.
    """
    seconds = np.maximum(sums[..., SECONDS], FADED)
    load = sums[..., BUSY] / seconds
    x = sums[..., REQUESTS] / seconds * np.where(np.isnan(cost), 1.0, cost)
    d = load - x
    part = np.maximum(x * x / (x * x + l0 * l0), np.minimum(sums[..., FULL_SECONDS] / seconds, 1.0))
    dearer = 1.0 + part * d / np.maximum(x, FADED)
    cheaper = (load + IDLE_LOAD) / (x + IDLE_LOAD)
    ratio = np.where(sums[..., REQUESTS] > FADED, np.where(d > 0, dearer, cheaper), 1.0)
    not_ours = clip((1.0 - part) * d, 0.0, MOST_NOT_OURS)
    return clip(cost * ratio, COST_MIN, COST_MAX), not_ours


def prior_cost(cost: Floats, rate: Floats, ours: Floats, baseline: Floats) -> Floats:
    """Return what a request should cost, k: as the peers of known cost do it for their baseline."""
    known = ~np.isnan(cost)
    work = summed(ours * baseline)
    seen = quotient(summed(rate), work, 1.0)
    per_weight = np.where(anybody(known), 1.0 / median(cost * baseline, known), seen)
    return clip(1.0 / (per_weight * baseline), COST_MIN, COST_MAX)


def learnt_cost(
    cost: Floats,
    prior: Floats,
    sums: Floats,
    windows: Floats,
    seen: Bools,
    parameters: SteelyardParameters,
    tick_s: float,
) -> Floats:
    """Return the peers' cost after a window: at first what was seen, later slowly, sooner down than up."""
    seconds = np.maximum(sums[..., SECONDS], FADED)
    load, rate = sums[..., BUSY] / seconds, sums[..., REQUESTS] / seconds
    first = (load + IDLE_LOAD) / (rate + IDLE_LOAD / prior)
    e, _ = split(sums, cost, parameters.l0)
    x = rate * cost
    ratio = np.log(e / cost)
    gain = np.where(ratio < 0, COST_DOWN_PER_S, COST_UP_PER_S * x * x / (x * x + parameters.l0**2)) * tick_s
    # A full window's load was guessed from the queue; below the noise one would seem to work for nothing.
    mute = (sums[..., FULL_SECONDS] > 0.5 * seconds) | (x < IDLE_LOAD)
    gain = np.where(mute, 0.0, np.minimum(gain, 1.0))
    learnt = np.where(windows <= YOUNG_WINDOWS, first, cost * np.exp(gain * ratio))
    return np.where(seen & (sums[..., REQUESTS] > FADED), clip(learnt, COST_MIN, COST_MAX), cost)
