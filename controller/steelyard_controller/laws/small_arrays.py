"""Clip, median and similar functions for short columns: the peers of one upstream or of many.

Pure arithmetic. With ten servers in an upstream, a step of the law is some hundred calls of numpy. Its own
clip, median and nan_to_num take longer to start than to compute. These give the same figures to the last bit.
"""

import numpy as np

from steelyard_controller.laws.snapshot import Bools, Floats


def clip(values: Floats, low: float, high: float) -> Floats:
    """Return the values within `low`..`high`; NaN stays NaN."""
    within: Floats = np.minimum(np.maximum(values, low), high)
    return within


def known_or_zero(values: Floats) -> Floats:
    """Return values that are not below 0, with 0 for NaN."""
    known: Floats = np.fmax(values, 0.0)
    return known


def summed(values: Floats | Bools, among: Bools | None = None) -> Floats:
    """Return the sum over an upstream's peers, or over those `among`; m x k give m x 1."""
    figures = values if among is None else np.where(among, values, 0.0)
    total: Floats = np.add.reduce(figures, axis=-1, keepdims=True)
    return total


def anybody(among: Bools) -> Bools:
    """Return whether any peer of an upstream is `among`; m x k give m x 1."""
    any_of_them: Bools = np.logical_or.reduce(among, axis=-1, keepdims=True)
    return any_of_them


def median(values: Floats, among: Bools) -> Floats:
    """Return the median over an upstream's peers `among`; NaN without any; m x k give m x 1."""
    count = summed(among)
    if not count.any():
        return np.full(count.shape, np.nan)
    # The other peers are sorted to the end.
    ordered, rows = np.sort(np.where(among, values, np.inf), axis=-1), np.arange(len(values))[:, None]
    lower, upper = (count - 1) // 2, np.minimum(count // 2, values.shape[-1] - 1)
    return np.where(count > 0, (ordered[rows, lower] + ordered[rows, upper]) / 2.0, np.nan)


def median_of_others(values: Floats, among: Bools) -> Floats:
    """Return for each peer the median of those `among` the others; NaN without any; m x k."""
    others, rows = summed(among) - among, np.arange(len(values))[:, None]
    order = np.argsort(np.where(among, values, np.inf), axis=-1, kind="stable")
    ordered, place = values[rows, order], np.argsort(order, axis=-1, kind="stable")
    # If a peer is among them, the values after it move up by one place.
    place = np.where(among, place, values.shape[-1])
    middle = [
        ordered[rows, np.minimum(at + (at >= place), values.shape[-1] - 1)]
        for at in (np.maximum(others - 1, 0) // 2, others // 2)
    ]
    return np.where(others > 0, (middle[0] + middle[1]) / 2.0, np.nan)


def quotient(of: Floats | float, by: Floats, otherwise: float) -> Floats:
    """Return `of` / `by`, of the shape of `by`; `otherwise` where that is not above 0."""
    divided: Floats = np.divide(of, by, out=np.full(np.shape(by), otherwise), where=by > 0)
    return divided
