"""How the rate of requests and the load went together: means of their squares and products (step 7). Pure."""

import numpy as np

from steelyard_controller.laws.small_arrays import known_or_zero
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.contrast import means
from steelyard_controller.laws.steelyard.evidence import IDLE_LOAD, REQUESTS, SECONDS
from steelyard_controller.laws.steelyard.own_load import OwnLoad

# No server does more; a broken report's square would be beyond what a memory may hold.
MOST_PER_S = 1e7


def moments_after(own: OwnLoad, restarted: Bools, fade: Floats, tick_s: float) -> Floats:
    """Return the moments after a window, k x 5: they fade, plus r T, l T, T, r^2 T and r l T.

        r, l    rate of requests and load of the window, whosever: of a full server, that it is full
        anew    with a restart, and with a window whose load is above the mean of l, by more than chance makes
                of it, though its rate is not

    A load that still rises where requests do not is a change that is under way: what came within a window is
    in the next one whole.
    """
    before, rate = own.evidence.moments, np.minimum(own.window[..., REQUESTS] / tick_s, MOST_PER_S)
    mean_rate, mean_load, _, _ = means(before)
    chance = np.sqrt(own.evidence.dispersion * rate / tick_s) * known_or_zero(own.e) + IDLE_LOAD
    rises = (before[..., SECONDS] > 0) & (rate <= mean_rate) & (own.load > mean_load + chance)
    added = np.stack((rate, own.load, np.ones(rate.shape), rate * rate, rate * own.load), axis=-1)
    kept = np.where((restarted | rises)[..., None], 0.0, before * fade[..., None])
    return np.where(own.seen[..., None], kept + tick_s * added, before)
