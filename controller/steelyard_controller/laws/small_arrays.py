"""Clip, median and the like of short columns, as numpy's own, which take longer to begin than to do it.

Pure arithmetic. With ten servers in an upstream a step of the law is some hundred calls of numpy, and these
are a third of its time. They give the same figures, to the last bit.
"""

import numpy as np

from steelyard_controller.laws.snapshot import Floats


def clip(values: Floats, low: float, high: float) -> Floats:
    """Return the values within `low`..`high`; NaN stays NaN."""
    within: Floats = np.minimum(np.maximum(values, low), high)
    return within


def median(values: Floats) -> float:
    """Return the median of one or more values, none of which is NaN."""
    ordered = np.sort(values)
    half = len(ordered) // 2
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def known_or_zero(values: Floats) -> Floats:
    """Return the values with 0 for NaN."""
    return np.where(np.isnan(values), 0.0, values)
