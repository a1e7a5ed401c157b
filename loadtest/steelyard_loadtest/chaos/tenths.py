"""A run cut into tenths of a second, and the strips in which it is drawn. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard_loadtest.chaos.model import Look
from steelyard_loadtest.lab.generators.tally import Request

TENTHS_PER_S = 10

MOST_STRIPS, LEAST_STRIP_S = 9, 60.0
"""More strips are no glance any more; a shorter one would stretch a second over a hand's breadth."""

GAP_S = 1.0
"""Looks further apart are of different stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenth:
    """Requests due within a tenth of a second from from_s on; worst_ms: None when none was answered."""

    from_s: float
    worst_ms: float | None
    failed: int


def tenths(requests: Iterable[Request], zero_s: float) -> list[Tenth]:
    """Return every tenth in which a request was due, in order, with seconds counted from zero_s."""
    worst: dict[int, float] = {}
    failed: dict[int, int] = {}
    for one in requests:
        number = math.floor((one.due_s - zero_s) * TENTHS_PER_S)
        failed[number] = failed.get(number, 0) + bool(one.failure)
        if not one.failure:
            worst[number] = max(worst.get(number, 0.0), one.latency_ms)
    return [
        Tenth(from_s=number / TENTHS_PER_S, worst_ms=worst.get(number), failed=count)
        for number, count in sorted(failed.items())
    ]


def not_well(looks: Sequence[Look], zero_s: float) -> list[tuple[float, float]]:
    """Return from when to when all was not well; looks in order."""
    spans: list[tuple[float, float]] = []
    since_s = last_s = None
    for look in looks:
        at_s = look.at_s - zero_s
        if since_s is not None and last_s is not None and (not look.not_well or at_s - last_s > GAP_S):
            spans.append((since_s, last_s if at_s - last_s > GAP_S else at_s))
            since_s = None
        if look.not_well and since_s is None:
            since_s = at_s
        last_s = at_s
    if since_s is not None and last_s is not None:
        spans.append((since_s, last_s))
    return spans


def strips(length_s: float) -> tuple[int, float]:
    """Return into how many strips a run is cut, and how long each is; a single one is as long as the run."""
    strip_s = max(math.ceil(length_s / MOST_STRIPS / 10) * 10.0, LEAST_STRIP_S)
    count = max(math.ceil(length_s / strip_s), 1)
    return count, strip_s if count > 1 else length_s
