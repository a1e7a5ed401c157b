"""An outcome in words: for the terminal, and for a table's cells. Pure."""

from collections.abc import Sequence

from steelyard_loadtest.chaos.model import RUNGS, Outcome
from steelyard_loadtest.chaos.records import Stray

ABSENT = "–"
PASS, BROKEN = "PASS", "BROKEN"


def milliseconds(value: float | None) -> str:
    """Write a latency: short ones to the tenth."""
    return ABSENT if value is None else f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def against(value: str, bound: str, *, kept: bool) -> str:
    """Write a figure beside its bound."""
    return f"{value} {'≤' if kept else '>'} {bound}"


def failed(outcome: Outcome) -> str:
    """Write how many requests failed, beside how many may."""
    kept = outcome.failed <= outcome.bound.failed
    if kept and not outcome.bound.failed:
        return "0"
    return against(f"{outcome.failed:,}", f"{outcome.bound.failed:,}", kept=kept)


def worst(outcome: Outcome) -> str:
    """Write the latency of the slowest answer in ms, beside its bound."""
    if outcome.worst_ms is None:
        return ABSENT
    kept = outcome.worst_ms <= outcome.bound.worst_ms
    return against(milliseconds(outcome.worst_ms), f"{outcome.bound.worst_ms:,.0f}", kept=kept)


def recovered(outcome: Outcome) -> str:
    """Write the time to recover in s, beside its bound."""
    bound = outcome.bound.recover_s
    if outcome.recover_s is None:
        return against("never", f"{bound:g}", kept=False)
    return against(f"{outcome.recover_s:.1f}", f"{bound:g}", kept=outcome.recover_s <= bound)


def rung(outcome: Outcome) -> str:
    """Write the worst rung that was seen, and the bound where it was not kept."""
    if outcome.rung is None:
        return ABSENT
    kept = RUNGS.index(outcome.rung) <= RUNGS.index(outcome.bound.rung)
    return outcome.rung if kept else f"{outcome.rung} > {outcome.bound.rung}"


def line(outcome: Outcome) -> str:
    """Write an outcome as one line without its name."""
    return (
        f"{PASS if outcome.passed else BROKEN}: {outcome.sent:,} sent, {failed(outcome)} failed, "
        f"worst {worst(outcome)} ms, well after {recovered(outcome)} s, rung {rung(outcome)}"
    )


def summary(outcomes: Sequence[Outcome], requests: int, strays: Sequence[Stray]) -> str:
    """Write the whole run as one line; requests: all that were sent, also between the faults."""
    broken = sum(not outcome.passed for outcome in outcomes)
    lost = sum(outcome.failed for outcome in outcomes)
    allowed = "" if not lost or broken else " (as the bounds allow)"
    between = f", {len(strays):,} failed between the faults" if strays else ""
    verdict = "all bounds kept" if not broken else f"{broken} broke a bound"
    faults = "1 fault" if len(outcomes) == 1 else f"{len(outcomes)} faults"
    return f"{faults}, {requests:,} requests, {lost:,} failed{allowed}{between}, {verdict}"
