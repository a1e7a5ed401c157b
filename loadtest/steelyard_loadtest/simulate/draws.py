"""Random durations: from a `Draw` to a function of no arguments. Pure but for the generator passed in."""

from collections.abc import Callable
from math import exp, log
from random import Random

from steelyard_loadtest.simulate.model import Draw


def sampler(draw: Draw, random: Random) -> Callable[[], float]:
    """Return a function that draws durations in seconds."""
    mean_s = draw.mean_s
    if draw.shape == "constant" or mean_s == 0:
        return lambda: mean_s
    uniform = random.random
    if draw.shape == "exponential":
        return lambda: -mean_s * log(1.0 - uniform())
    # ln X is normal with variance ln(1 + cv^2); the mean of X is then exp(mu + variance / 2).
    variance = log(1.0 + draw.cv**2)
    mu, sigma, normal = log(mean_s) - variance / 2, variance**0.5, random.gauss
    return lambda: exp(normal(mu, sigma))


def stream(seed: int, purpose: str) -> Random:
    """Return a generator of its own for each purpose, so that one more draw here moves nothing there."""
    return Random(f"{seed}/{purpose}")
