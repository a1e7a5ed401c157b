"""How far the shares of servers are from what they should be, and how much they move. Pure.

A share is a part of all requests. The distance of two lists of shares is the part of the
requests that would have to go to another server to turn the one into the other (the total
variation distance):

    d(p, q) = 1/2 sum_j |p_j - q_j|          0: the same; 1: nothing in common
"""

import numpy as np
from steelyard_controller.snapshot import Floats


def shares(figures: Floats) -> Floats:
    """Return figures (weights, capacities, counts; any rows by k servers) as parts of their row's sum.

    A row that sums to 0 has no shares: NaN.
    """
    totals = figures.sum(axis=-1, keepdims=True)
    parts: Floats = np.divide(
        figures, totals, out=np.full(figures.shape, np.nan), where=np.broadcast_to(totals > 0, figures.shape)
    )
    return parts


def misplaced(given: Floats, wanted: Floats) -> float:
    """Return d, averaged over the rows: the part of the requests that is at the wrong server."""
    return float(np.mean(0.5 * np.abs(given - wanted).sum(axis=-1)))


def moved(given: Floats) -> float:
    """Return d between a tick's shares and the next one's, averaged: the part of the traffic that moves.

    `given` is ticks by servers; NaN for fewer than two ticks.
    """
    if len(given) < 2:
        return float("nan")
    return float(np.mean(0.5 * np.abs(np.diff(given, axis=0)).sum(axis=-1)))


def swing(given: Floats) -> float:
    """Return how far shares swing about their mean: sqrt(2) times the root mean square of d, over the ticks.

    `given` is ticks by servers. For a sine this is its amplitude, and unlike a peak it does not
    grow with the number of ticks. 0: the shares stand still; 0.2: a fifth of all traffic goes to and fro.
    """
    if len(given) == 0:
        return float("nan")
    distances = 0.5 * np.abs(given - given.mean(axis=0)).sum(axis=-1)
    return float(np.sqrt(2.0 * np.mean(distances**2)))


def expected_of_random(wanted: Floats, requests: int) -> float:
    """Return the d that independent random picks by the right shares have on average.

    The count of a server is binomial, and its mean absolute deviation is, in the normal
    approximation, sqrt(2 p (1 - p) / (pi n)) of the requests.
    """
    if requests <= 0:
        return float("nan")
    return float(0.5 * np.sqrt(2.0 * wanted * (1.0 - wanted) / (np.pi * requests)).sum())
