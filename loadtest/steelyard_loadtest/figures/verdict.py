"""The target: our default's p99 against the best of the others in the same run. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from steelyard_loadtest.figures.trial_figures import Summary
from steelyard_loadtest.reporting.statistics import Spread, grouped
from steelyard_loadtest.scenario.algorithms import BY_NAME, DEFAULT

FAILURES_AT_MOST = 0.001
"""A balancer that drops requests is quick with the rest; one in a thousand is below what p99 sees."""

Standing = Literal["met", "missed", "failed", "no peer", "not measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """An algorithm that ours is compared with."""

    algorithm: str
    p99_ms: Spread
    ratio: float | None
    """Our median p99 over its median p99; None when ours has none."""
    within_noise: bool
    """The ranges of the repeats overlap, so another run might differ. Never with one repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One scenario at one level. online, informed: the best balancer without and with the true weights.

    failed: more than 0.1 % of our default's requests failed, whatever its p99. no peer: no measured peer kept
    its failures below that.
    """

    scenario: str
    level: float
    p99_ms: Spread | None
    failures_part: float
    online: Rival | None
    informed: Rival | None
    standing: Standing


def verdicts(summaries: Sequence[Summary]) -> list[Verdict]:
    """Judge every scenario and level in which something was measured, in their order."""
    groups = grouped(summaries, lambda summary: (summary.scenario, summary.level))
    return [_judge(scenario, level, group) for (scenario, level), group in groups.items()]


def is_online(name: str) -> bool:
    """Return whether an algorithm is an online peer: a balancer of requests, not ours, without information.

    A balancer of TCP connections is none: it never sees a request, and cannot spread those of a kept
    connection.
    """
    algorithm = BY_NAME[name]
    balances = algorithm.program != "direct" and algorithm.mode == "http"
    return balances and not algorithm.ours and not algorithm.informed


def _judge(scenario: str, level: float, group: Sequence[Summary]) -> Verdict:
    own = next((summary for summary in group if summary.algorithm == DEFAULT), None)
    p99_ms = own.metrics.get("p99_ms") if own else None
    held = [
        summary
        for summary in group
        if summary.failures_part <= FAILURES_AT_MOST and "p99_ms" in summary.metrics
    ]
    online = _best([summary for summary in held if is_online(summary.algorithm)], own)
    informed = _best([summary for summary in held if BY_NAME[summary.algorithm].weights == "true"], own)
    failures_part = own.failures_part if own else 0.0
    return Verdict(
        scenario=scenario,
        level=level,
        p99_ms=p99_ms,
        failures_part=failures_part,
        online=online,
        informed=informed,
        standing=_standing(p99_ms, failures_part, online),
    )


def _standing(p99_ms: Spread | None, failures_part: float, online: Rival | None) -> Standing:
    if failures_part > FAILURES_AT_MOST:
        return "failed"
    if p99_ms is None:
        return "not measured"
    if online is None or online.ratio is None:
        return "no peer"
    return "met" if online.ratio <= 1 else "missed"


def _best(rivals: Sequence[Summary], own: Summary | None) -> Rival | None:
    if not rivals:
        return None
    best = min(rivals, key=lambda summary: summary.metrics["p99_ms"].median)
    theirs = best.metrics["p99_ms"]
    ours = own.metrics.get("p99_ms") if own else None
    repeated = own is not None and len(own.trials) > 1 and len(best.trials) > 1
    overlap = ours and ours.lowest <= theirs.highest and theirs.lowest <= ours.highest
    return Rival(
        algorithm=best.algorithm,
        p99_ms=theirs,
        ratio=ours.median / theirs.median if ours and theirs.median > 0 else None,
        within_noise=bool(repeated and overlap),
    )
