"""How busy the peers are: residuals, entropy weights, score, alert (step 1; eqs 1-4 and 6).

Pure.

    r_ij  = clip((1 - u_ij) / (1 - knee_i), 0, 1)
    rs_ij = EWMA_alpha(r_ij)
    q_i   = min(1, R_i / R0),  d_i = (1 - E_i) q_i,  mu = (1 - phi) max_i q_i
    W_i  += (1 - e^(-T/tau_W)) (mu d_i / sum d + (1 - mu) a_i - W_i)
    U_j   = (1 - gamma) sum_i W_i rs_ij + gamma min_i rs_ij
    alert = any U_j <= H (H + hyst while in alert)
    hot_j = alert and (U_j <= that or U_j >= L)

a_i shares 1 equally among the four, each with its part whoever measures it, and
those further indicators that somebody measures: what nobody reports moves nothing.
"""

from dataclasses import dataclass
from math import exp

import numpy as np

from steelyard_controller.laws.equations import Spread, entropy_weights, load_classes, residual_score, spread
from steelyard_controller.laws.small_arrays import anybody, clip, summed
from steelyard_controller.laws.snapshot import INDICATORS, Batch, Bools, Floats, measured_rows
from steelyard_controller.laws.steelyard.steelyard_parameters import SteelyardParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The load of the peers according to their samples: k each, or m x n by indicator, m x 1 the alert."""

    score: Floats
    entropy_weights: Floats
    spread: Spread
    credit: Floats
    alert: Bools
    hot: Bools


def knees(snapshots: Batch, knee_mem: float) -> Floats:
    """Return the load below which each indicator is not load, m x n: as declared, or else memory's, or 0."""
    usual = np.array([knee_mem if each == "mem" else 0.0 for each in snapshots.indicators])
    return np.where(np.isnan(snapshots.knees), usual, snapshots.knees)


def residuals(utilization: Floats, knee: Floats) -> Floats:
    """Return r, k x n; NaN where an indicator is not measured."""
    return clip((1.0 - utilization) / (1.0 - knee[:, None]), 0.0, 1.0)


def tightest(residual: Floats) -> Floats:
    """Return the least residual of each peer, k; NaN where nothing is measured."""
    measured = ~np.isnan(residual)
    least = np.min(residual, axis=-1, where=measured, initial=np.inf)
    return np.where(measured.any(axis=-1), least, np.nan)


def smoothed(before: Floats, residual: Floats, alpha: float) -> Floats:
    """Return rs, k x n. A peer without a sample keeps its own; an indicator no longer measured is dropped."""
    sampled = measured_rows(residual)
    fresh = np.where(np.isnan(before), residual, before + alpha * (residual - before))
    return np.where(sampled[..., None], fresh, before)


def scored(
    *,
    indicators: tuple[str, ...],
    rs: Floats,
    known: Bools,
    judged: Bools,
    weights_before: Floats,
    alert_before: Bools,
    tick_s: float,
    parameters: SteelyardParameters,
) -> Scored:
    """Score every peer that is `known`; only `judged` ones are compared and can raise the alert."""
    compared = anybody(judged)
    busy = np.where(judged[..., None], 1.0 - rs, np.nan)
    apart = spread(busy)
    measured = (~np.isnan(busy)).sum(axis=-2)
    credit = np.where(measured >= 2, np.minimum(1.0, apart.range / parameters.R0), 0.0)
    mu = (1.0 - parameters.phi) * credit.max(axis=-1, keepdims=True)
    counts = np.array([each in INDICATORS for each in indicators]) | (measured > 0)
    equal = (1.0 - mu) * counts / np.maximum(summed(counts), 1)
    target = mu * entropy_weights(apart.entropy, credit) + equal
    step = 1.0 - exp(-tick_s / parameters.tau_W) if parameters.tau_W > 0 else 1.0
    weights = np.where(compared, weights_before + step * (target - weights_before), weights_before)
    shown = np.where(known[..., None], rs, np.nan)
    score = (1.0 - parameters.gamma) * residual_score(weights, shown) + parameters.gamma * tightest(shown)
    high, low = load_classes(
        score, parameters.H + np.where(alert_before, parameters.hyst, 0.0), parameters.L, judged
    )
    return Scored(
        score=score,
        entropy_weights=weights,
        spread=apart,
        credit=credit,
        alert=np.where(compared, anybody(high), alert_before),
        hot=high | low,
    )
