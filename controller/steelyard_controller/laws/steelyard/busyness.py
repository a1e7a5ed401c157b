"""Busyness of the peers: smoothed residuals, entropy weights, score, alert with its hysteresis. Pure.

Step 1; eqs 1 to 4 and 6.
"""

from dataclasses import dataclass
from math import exp

import numpy as np

from steelyard_controller.laws.equations import Spread, entropy_weights, load_classes, residual_score, spread
from steelyard_controller.laws.pairing import OLDEST_TICKS
from steelyard_controller.laws.small_arrays import anybody, clip, summed
from steelyard_controller.laws.snapshot import (
    INDICATORS,
    Batch,
    Bools,
    Floats,
    measured_rows,
    over_rows,
)
from steelyard_controller.laws.steelyard.inputs import Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class IndicatorWeights:
    """W, m x n, with its origin: eqs 1 to 3, and q, m x n, the part that an indicator may claim."""

    weights: Floats
    spread: Spread
    credit: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Busyness:
    """The peers' busyness according to their samples (step 1).

    knee               m x n, utilization below it does not count as load
    residual           k x n, r; NaN: not measured
    smoothed           k x n, rs
    load               k, l = 1 - min_i r_ij; NaN without a sample at this tick
    sampled            k, whether there is a sample
    measured           k, whether there has been one
    sampleless_ticks   k, ticks since the last sample
    by_indicator       W and its origin
    score              k, U; NaN: not known
    alert              m x 1, whether a peer is at most H
    hot                k, whether a peer is beyond H or L during an alert
    """

    knee: Floats
    residual: Floats
    smoothed: Floats
    load: Floats
    sampled: Bools
    measured: Bools
    sampleless_ticks: Floats
    by_indicator: IndicatorWeights
    score: Floats
    alert: Bools
    hot: Bools


def measure_busyness(inputs: Inputs) -> Busyness:
    """Score the peers by their samples; only the yardsticks are compared and raise the alert (step 1).

    U_j   = (1 - gamma) sum_i W_i rs_ij + gamma min_i rs_ij        eq 6 is gamma = 0
    H'    = (H + L)/2 during an alert, H otherwise
    alert = any U_j <= H'
    hot_j = alert and (U_j <= H' or U_j >= L)
    """
    snapshots, parameters, previous = inputs.snapshots, inputs.parameters, inputs.previous
    knee = knees(snapshots, parameters.knee_mem)
    residual = residuals(snapshots, knee)
    load = 1.0 - tightest(residual)
    sampled = ~np.isnan(load)
    sampleless_ticks = np.where(sampled, 0.0, previous["sampleless_ticks"] + 1.0)
    rs = smoothed(previous["rs"], residual, sampled, 1.0 - (1.0 - parameters.alpha) ** snapshots.tick_s)
    measured = measured_rows(rs)
    known = measured & (sampleless_ticks <= inputs.patience_ticks)
    judged = known & inputs.yardsticks
    by_indicator = indicator_weights(inputs, rs, judged)

    gamma, shown = parameters.gamma, np.where(known[..., None], rs, np.nan)
    score = (1.0 - gamma) * residual_score(by_indicator.weights, shown) + gamma * tightest(shown)
    alert = inputs.previous_scalars["alert"] > 0
    threshold = np.where(alert, (parameters.H + parameters.L) / 2.0, parameters.H)
    high, low = load_classes(score, threshold, parameters.L, judged)
    return Busyness(
        knee=knee,
        residual=residual,
        smoothed=rs,
        load=load,
        sampled=sampled,
        measured=measured,
        sampleless_ticks=sampleless_ticks,
        by_indicator=by_indicator,
        score=score,
        alert=np.where(anybody(judged), anybody(high), alert),
        hot=high | low,
    )


def knees(snapshots: Batch, knee_mem: float) -> Floats:
    """Return each indicator's knee, m x n: utilization below it does not count as load.

    It is the declared one, or else `knee_mem` for memory, and 0 for the others.
    """
    usual = np.array([knee_mem if each == "mem" else 0.0 for each in snapshots.indicators])
    return np.where(np.isnan(snapshots.knees), usual, snapshots.knees)


def residuals(snapshots: Batch, knee: Floats) -> Floats:
    """Return r, k x n; NaN: an indicator is not measured, or the sample is too old.

    r_ij = clip((1 - u_ij)/(1 - knee_i), 0, 1)        u_ij: utilization
    """
    usable = (snapshots.sample_age_ticks <= OLDEST_TICKS)[..., None]
    utilization = np.where(usable, snapshots.utilization, np.nan)
    return clip((1.0 - utilization) / (1.0 - knee[:, None]), 0.0, 1.0)


def tightest(residual: Floats) -> Floats:
    """Return the least residual of each peer, k; NaN: nothing is measured."""
    return over_rows(np.fmin, residual)


def smoothed(before: Floats, residual: Floats, sampled: Bools, part: float) -> Floats:
    """Return rs = EWMA_part(r), k x n;  part = 1 - (1 - alpha)^T.

    A peer without a sample keeps its previous values. An indicator that is no longer measured is dropped.
    """
    fresh = np.where(np.isnan(before), residual, before + part * (residual - before))
    return np.where(sampled[..., None], fresh, before)


def indicator_weights(inputs: Inputs, rs: Floats, judged: Bools) -> IndicatorWeights:
    """Return the indicators' weights after a tick, from the `judged` peers.

        q_i   = min(1, R_i/R0)              R_i: range of 1 - rs_ij (eq 1); 0 if fewer than two measure it
        d_i   = (1 - E_i) q_i               E_i: its entropy (eq 3)
        mu    = (1 - phi) max_i q_i         the part of W for differences between peers
        W_i  += (1 - e^(-T/tau)) (mu d_i/sum d + (1 - mu) a_i - W_i)

    a_i shares 1 equally among the four and those further indicators that some peer measures. So an indicator
    that no peer reports moves nothing, and the four always have a part.
    """
    indicators, parameters = inputs.snapshots.indicators, inputs.parameters
    busy = np.where(judged[..., None], 1.0 - rs, np.nan)
    apart = spread(busy)
    credit = np.minimum(1.0, apart.range / parameters.R0)
    mu = (1.0 - parameters.phi) * np.maximum.reduce(credit, axis=-1, keepdims=True)
    some_peer_measures = np.logical_or.reduce(~np.isnan(busy), axis=-2)
    counts = np.array([each in INDICATORS for each in indicators]) | some_peer_measures
    equal = (1.0 - mu) * counts / np.maximum(summed(counts), 1)
    target = mu * entropy_weights(apart.entropy, credit) + equal
    part = 1.0 - exp(-inputs.snapshots.tick_s / parameters.tau)
    before = np.concatenate([inputs.previous_scalars[f"W_{each}"] for each in indicators], axis=-1)
    weights = np.where(anybody(judged), before + part * (target - before), before)
    return IndicatorWeights(weights=weights, spread=apart, credit=credit)
