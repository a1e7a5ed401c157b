"""The paper's equations 1 to 8, with solutions for the cases that it leaves open.

Pure arithmetic: no I/O, no clock, no settings. Qin, Wang, Yuan, Zhong,
"Research on Nginx Dynamic Load Balancing Algorithm". Rows are peers j = 1..k,
columns are indicators i = 1..n (cpu, net, io, mem, and further ones); NaN is "not measured".
Arrays may have the upstreams as a first axis before these.
"""

from dataclasses import dataclass

import numpy as np

from steelyard_controller.laws.small_arrays import anybody, clip, quotient, summed
from steelyard_controller.laws.snapshot import INDICATORS, Bools, Floats, Ints

EQUAL = np.full(len(INDICATORS), 1.0 / len(INDICATORS))

# Below this range, readings differ by rounding only, and eq 1 would stretch that to 0..1.
SMALLEST_RANGE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The difference that each indicator makes between peers (eqs 1-3): k x n, k x n, n, n."""

    normalized: Floats
    proportions: Floats
    entropy: Floats
    range: Floats


def spread(busy: Floats) -> Spread:
    """Apply eqs 1-3 to utilizations X, k x n; NaN: not measured.

        Y_ij = (X_ij - min_j X_ij)/(max_j X_ij - min_j X_ij)        (1)
        p_ij = Y_ij/sum_j Y_ij                                      (2)
        E_i  = -1/ln(k) sum_j p_ij ln p_ij        0 ln 0 = 0        (3)

    For each indicator, k is the number of peers that measure it. If they are all equal, or fewer than two,
    the indicator makes no difference: p = 1/k, E = 1.
    """
    measured = ~np.isnan(busy)
    count = measured.sum(axis=-2, keepdims=True)
    low = np.fmin.reduce(busy, axis=-2, keepdims=True, initial=np.inf)
    high = np.fmax.reduce(busy, axis=-2, keepdims=True, initial=-np.inf)
    extent = np.maximum(high - low, 0.0)
    differs = extent >= SMALLEST_RANGE
    normalized = np.where(measured & differs, (busy - low) / np.where(differs, extent, 1.0), 0.0)
    sums = np.where(differs, np.add.reduce(normalized, axis=-2, keepdims=True), 1.0)
    proportions = np.where(differs, normalized / sums, measured / np.maximum(count, 1))
    return Spread(
        normalized=normalized,
        proportions=proportions,
        entropy=np.where(differs, _entropy(proportions, count), 1.0)[..., 0, :],
        range=extent[..., 0, :],
    )


def _entropy(proportions: Floats, count: Ints) -> Floats:
    """Return eq 3 per column; a column of fewer than two peers reads 1."""
    terms = proportions * np.log(np.where(proportions > 0, proportions, 1.0))
    return clip(-np.add.reduce(terms, axis=-2, keepdims=True) / np.log(np.maximum(count, 2)), 0.0, 1.0)


def entropy_weights(entropy: Floats, credit: Floats | None = None) -> Floats:
    """Return eq 4: indicator weights that sum to 1; 1/n each if no indicator makes a difference.

        W_i = (1 - E_i) q_i/sum_i (1 - E_i) q_i        (4)        E: entropy

    `credit`, q_i in 0..1, scales the part that an indicator may claim (the paper has none: 1).
    """
    divergence: Floats = (1.0 - entropy) * (1.0 if credit is None else credit)
    total = summed(divergence)
    equal = np.full(entropy.shape, 1.0 / entropy.shape[-1])
    weights: Floats = np.divide(divergence, total, out=equal, where=total > SMALLEST_RANGE)
    return weights


def hardware_shares(indicator_weights: Floats, capacity: Floats) -> Floats:
    """Return eq 5 without its S: the share of each of k peers in all hardware; the shares sum to 1.

        W_Sj = S sum_i W_i cap_ij/sum_j cap_ij        (5)        i: the four;  W: indicator weights

    `capacity` is k x 4, absolute. A column of zeros is shared equally. An unknown figure (NaN) is left out:
    a peer is judged by its known columns. A peer without any counts as average.
    """
    k = max(capacity.shape[-2], 1)
    known = ~np.isnan(capacity)
    count = known.sum(axis=-2, keepdims=True)
    figures = np.where(known, capacity, 0.0)
    totals = figures.sum(axis=-2, keepdims=True)
    # Scaled by the part of the peers with a known figure, so that the mean over these is always 1/k.
    share = np.divide(figures, totals, out=np.full(figures.shape, 1.0 / k), where=totals > 0)
    share = np.where(totals > 0, share * (count / k), share)
    weights = _over_the_known(indicator_weights, known)
    weight = weights.sum(axis=-1)
    shares = quotient((share * weights).sum(axis=-1), weight, 1.0 / k)
    total = summed(shares)
    whole: Floats = np.divide(shares, total, out=np.full(shares.shape, 1.0 / k), where=total > 0)
    return whole


def hardware_weights(indicator_weights: Floats, indicators: tuple[str, ...]) -> Floats:
    """Return the weights of the four indicators with hardware (eq 5), 4; further ones have no capacity."""
    weights = np.zeros((*indicator_weights.shape[:-1], len(INDICATORS)))
    for column, name in enumerate(INDICATORS):
        if name in indicators:
            weights[..., column] = indicator_weights[..., indicators.index(name)]
    return weights


def residual_score(indicator_weights: Floats, residual: Floats) -> Floats:
    """Return eq 6, k: the weighted residual over the indicators that each peer measures.

        U_j = sum_i W_i (1 - X_ij)        (6)        X: utilization

    `residual`, 1 - X, is k x n. A peer that measures nothing scores NaN.
    """
    measured = ~np.isnan(residual)
    weights = _over_the_known(indicator_weights, measured)
    weight = weights.sum(axis=-1)
    total = (weights * np.where(measured, residual, 0.0)).sum(axis=-1)
    return quotient(total, weight, np.nan)


def _over_the_known(indicator_weights: Floats, known: Bools) -> Floats:
    """Return the indicator weights of each peer, k x n; 0 for an unknown indicator.

    A peer that knows only indicators of weight 0 is judged by these equally.
    """
    weights = np.where(known, indicator_weights[..., None, :], 0.0)
    blind = summed(weights) <= 0
    return np.where(blind, known.astype(np.float64), weights)


def score_shares(score: Floats) -> Floats:
    """Return eq 7, k: each peer's share of the summed score; NaN for an unknown score; equal if all are 0.

    F_j = U_j/sum_j U_j        (7)
    """
    known = ~np.isnan(score)
    total = score.sum(axis=-1, keepdims=True, where=known)
    equal = np.where(known, 1.0 / np.maximum(summed(known), 1), np.nan)
    shares: Floats = np.divide(score, total, out=equal, where=total > 0)
    return shares


def load_classes(
    score: Floats, high: float | Floats, low: float, judged: Bools | None = None
) -> tuple[Bools, Bools]:
    """Return the high-load nodes (U <= H) and the low-load nodes (U >= L), k each.

    Low-load nodes count only while there is a high-load one. Peers outside `judged` and those without a score
    are neither.
    """
    known = ~np.isnan(score) if judged is None else judged & ~np.isnan(score)
    is_high = known & (score <= high)
    is_low = known & (score >= low) & anybody(is_high)
    return is_high, is_low & ~is_high


def adjusted_weights(baseline: Floats, shares: Floats, adjusted: Bools, scale: float = 1.0) -> Floats:
    """Return eq 8, k: for the `adjusted` nodes (times `scale`), W_Sj for the others.

        W_j = F_j W_Sj        (8)        F: shares;  W_S: baseline

    As printed (scale 1), the result does not sum to S: an adjusted node shrinks k-fold against an untouched
    one. The variant `scale` = k compares like with like.
    """
    return np.where(adjusted, np.where(np.isnan(shares), 1.0, shares * scale) * baseline, baseline)
