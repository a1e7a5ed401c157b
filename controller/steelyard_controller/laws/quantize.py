"""Rounds weights to integers: by largest remainder, none below the floor.

Pure arithmetic: no I/O, no clock, no settings.

    q_j   = max(floor(S w_j / sum w), 1)
    left  = S - sum q      > 0: one more each for the largest remainders, ties by position
                           < 0: the largest pay for the raised floors, unit by unit

O(k log k): the largest are cut to a common level, which is computed at once and not unit by unit.
"""

import numpy as np

from steelyard_controller.laws.snapshot import Floats, Ints


def quantize(weights: Floats, total: int, floor: int = 1) -> Ints:
    """Return k integers that sum to `max(total, k * floor)`, each at least `floor`; m rows for m x k weights.

    `weights` are non-negative and finite, in any scale; all zero means equal.
    """
    k = weights.shape[-1]
    if k == 0:
        return np.empty(weights.shape, dtype=np.int64)
    total = max(total, k * floor)
    positive = np.maximum(weights, 0.0)
    scale = np.add.reduce(positive, axis=-1, keepdims=True)
    exact = np.divide(positive, scale, out=np.full(weights.shape, 1.0 / k), where=scale > 0) * total
    whole = np.floor(exact)
    published: Ints = np.maximum(whole.astype(np.int64), floor)
    left = total - np.add.reduce(published, axis=-1, keepdims=True)
    # A stable sort puts the earlier position first among equal remainders.
    order = np.argsort(whole - exact, axis=-1, kind="stable")
    of_each = published.reshape(-1, k)
    of_each[np.arange(len(of_each))[:, None], order] += np.arange(k) < left
    for row in np.flatnonzero(left < 0):
        of_each[row] = _take_from_the_largest(of_each[row], -int(left.flat[row]))
    return published


def _take_from_the_largest(published: Ints, excess: int) -> Ints:
    """Take `excess` units, each from the largest of that moment (the first of equals).

    The result is a level: all above it are cut to it, and the surplus of the last round goes back to the last
    of those that were cut.
    """
    descending = np.sort(published)[::-1]
    # freed[i]: units freed by cutting the i + 1 largest down to the next one's height.
    heights = np.append(descending[1:], 0)
    freed = np.cumsum((descending - heights) * np.arange(1, len(descending) + 1))
    largest = int(np.searchsorted(freed, excess)) + 1
    freed_before = int(freed[largest - 2]) if largest > 1 else 0
    level = int(descending[largest - 1]) - -(-(excess - freed_before) // largest)
    result: Ints = np.minimum(published, level)
    surplus = int((published - result).sum()) - excess
    # Unit by unit, ties are cut first to last, so the surplus belongs to the last of them.
    cut_positions = np.flatnonzero(published > level)
    result[cut_positions[len(cut_positions) - surplus :]] += 1
    return result
