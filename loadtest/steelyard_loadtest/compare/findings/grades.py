"""By which rules a figure of ours says that a finding reproduced. Pure.

Ratios are compared, never absolute figures: the hardware differs. An effect is
reproduced when at least half of it is found, on the logarithmic scale on which
twice and half are equally far from one: half of a ratio there is its square root.
"""

import math
from collections.abc import Sequence
from typing import Literal

from steelyard_loadtest.compare.findings.finding import Answer, Grade
from steelyard_loadtest.compare.findings.measured_figures import LackingError

Best = Literal["highest", "lowest"]

NOISE = 1.02
"""Means of the locust study's three runs have deviations of 1 to 2 %: less than that is no effect."""

ALIKE = 1.10
"""Rates that sources call equal differ by up to 3 % (vproxy, 10 connections); latencies scatter more."""

ROUGHLY = 1.25
"""What is farther apart than this no source calls equal."""

NEARLY_BEST = ALIKE
"""What is alike the best is near it."""


def number(value: float) -> str:
    """Write three significant digits, and no more than two decimals unless it is very small."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 0.01:
        return f"{value:.1g}"
    decimals = min(2, max(0, 2 - math.floor(math.log10(abs(value)))))
    return f"{value:,.{decimals}f}"


def apart(values: Sequence[float]) -> float:
    """Return the largest over the smallest."""
    if max(values) == min(values):
        return 1.0
    return max(values) / min(values) if min(values) > 0 else math.inf


def half(published: float) -> float:
    """Return the ratio that is half of a published effect, but more than noise."""
    root = math.sqrt(published)
    return max(root, NOISE) if published > 1 else min(root, 1 / NOISE)


def effect(ours: float, published: float) -> Grade:
    """Grade by how much of their effect there is; some of it, but less than half, is `partly`."""
    sign = 1 if published > 1 else -1
    found = sign * (math.log(ours) if ours > 0 else -math.inf)
    if found >= sign * math.log(half(published)):
        return "reproduced"
    return "partly" if found >= math.log(NOISE) else "not reproduced"


def alike(values: Sequence[float], bound: float = ALIKE) -> Answer:
    """Judge figures that should be within `bound` of one another."""
    ratio = apart(values)
    grade: Grade = "partly" if ratio <= max(bound, ROUGHLY) else "not reproduced"
    return Answer(here=number(ratio), grade="reproduced" if ratio <= bound else grade)


def over_best(ours: float, others: Sequence[float], best: Best) -> float:
    """Return ours over the best of the others. Raises LackingError when that is 0."""
    rival = max(others) if best == "highest" else min(others)
    if rival == 0:
        raise LackingError("a figure of the others that is not 0")
    return ours / rival


def beaten(ratio: float, best: Best) -> Grade:
    """Grade a figure that should be the best by its ratio over the best of the others."""
    behind = ratio if best == "lowest" else 1 / ratio if ratio else math.inf
    if behind <= 1:
        return "reproduced"
    return "partly" if behind <= NEARLY_BEST else "not reproduced"


def part(found: int, of: int) -> Grade:
    """Grade by in how many cases it is so: all of them, half or more, or fewer."""
    if found == of:
        return "reproduced"
    return "partly" if 2 * found >= of else "not reproduced"
