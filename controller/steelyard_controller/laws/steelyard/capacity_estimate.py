"""The capacity estimate: the evidence takes in a window, and says what a peer can do (step 6). Pure."""

from dataclasses import dataclass, replace
from math import exp

import numpy as np

from steelyard_controller.laws.snapshot import Floats
from steelyard_controller.laws.steelyard.change_detection import Change
from steelyard_controller.laws.steelyard.evidence import FULL_SECONDS, REQUESTS, SECONDS, Evidence
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.own_load import OwnLoad
from steelyard_controller.laws.steelyard.request_cost import YOUNG_WINDOWS, capacity, learnt_cost, split

# A restart makes the test less eager for a while, not deaf: what was lost may come back soon.
RESTARTS_FADE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The evidence after a window; what follows from it, k each: c, and w, the load that is not ours."""

    evidence: Evidence
    capacity: Floats
    not_ours: Floats


def estimate_capacity(inputs: Inputs, own: OwnLoad, change: Change) -> Estimate:
    """Take in the window, and estimate the capacity (step 6).

    A, B, D, F   fade with tau, plus requests, load seconds, seconds, seconds full of the window
                 after a change: those of the windows since
    A'           likewise, changed or not
    J            fades with 10 s, plus 1 for a change
    """
    before, parameters, tick_s = own.evidence, inputs.parameters, inputs.snapshots.tick_s
    fade = exp(-tick_s / parameters.tau)
    count = own.window[..., REQUESTS]
    sums = before.sums * np.where(own.seen, fade, 1.0)[..., None]
    sums[..., :FULL_SECONDS] += own.window
    sums[..., FULL_SECONDS] += np.where(own.full & own.seen, tick_s, 0.0)
    if change.restarted.any():
        restarted = change.restarted
        sums[restarted, :FULL_SECONDS] = change.since[restarted]
        sums[restarted, FULL_SECONDS] = np.where(own.full, change.since[..., SECONDS], 0.0)[restarted]
    windows = before.windows + (count > 0)
    known = ~np.isnan(before.cost)
    cost = learnt_cost(before.cost, own.prior, sums, windows, known & own.seen, tick_s, parameters)
    evidence = replace(
        before,
        sums=sums,
        recent=change.recent,
        requests=before.requests * fade + count,
        cost=cost,
        windows=np.minimum(windows, 2 * YOUNG_WINDOWS),
        jumps=before.jumps * exp(-tick_s / RESTARTS_FADE_S) + change.restarted,
        restarts=before.restarts + change.restarted,
        dispersion=change.dispersion,
    )
    e, w = split(sums, cost, parameters.l0)
    able = capacity(e, w, evidence.requests, inputs.baseline, parameters.n0)
    return Estimate(evidence=evidence, capacity=able, not_ours=w)
