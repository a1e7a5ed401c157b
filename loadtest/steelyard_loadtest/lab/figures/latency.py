"""Points of a latency distribution that enough requests stand behind. Pure."""

import math
from collections.abc import Sequence

from steelyard_loadtest.lab.records import Quantile


def at(quantiles: Sequence[Quantile], part: float, succeeded: int) -> float | None:
    """Return what `part` (0..1) of the requests took at most, in ms; None when it is not known.

    It is known when the generator gave that very point and when at least one request
    lies beyond it: p99.9 of 500 requests would be their maximum under another name.
    """
    # The part is a decimal fraction: 1 / (1 - 0.99) is a little over 100.
    if part < 1 and succeeded < round(1 / (1 - part), 6):
        return None
    return next((point.ms for point in quantiles if math.isclose(point.part, part, abs_tol=1e-9)), None)
