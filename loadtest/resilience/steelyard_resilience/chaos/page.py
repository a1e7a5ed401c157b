"""The outcomes in words: a line of a terminal, the table by group, the page. Pure but for reading page.md."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from steelyard_loadtest.reporting.markdown import Column, markdown
from steelyard_loadtest.reporting.markdown import table as table_of
from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.reporting.wording import ABSENT, NEVER, against, counted, milliseconds
from steelyard_loadtest.templates import render_file

from steelyard_resilience.chaos.fault import RUNGS, Gathered, Outcome
from steelyard_resilience.chaos.outcomes import strays

PASS, BROKEN = "PASS", "BROKEN"


def page(run: Gathered, conditions: Mapping[str, str]) -> str:
    """Return the whole page."""
    values = {
        "run": run, "table": table(run.outcomes), "in_short": summary(run), "reasons": reasons(run.outcomes),
        "conditions": conditions,
    }  # fmt: skip
    return render_file(Path(__file__).with_name("page.md"), values)


def summary(run: Gathered) -> str:
    """Write the whole run as one line."""
    broken = sum(not outcome.passed for outcome in run.outcomes)
    lost = sum(outcome.failed for outcome in run.outcomes)
    allowed = "" if not lost or broken else " (as the bounds allow)"
    kinds = Counter(one.failure for one in strays(run))
    by_kind = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    between = f", {kinds.total():,} failed between the faults ({by_kind})" if kinds else ""
    verdict = "all bounds kept" if not broken else f"{broken} broke a bound"
    faults = counted(len(run.outcomes), "fault")
    return f"{faults}, {len(run.requests):,} requests, {lost:,} failed{allowed}{between}, {verdict}"


def line(outcome: Outcome) -> str:
    """Write an outcome as one line without its name."""
    return (
        f"{PASS if outcome.passed else BROKEN}: {outcome.sent:,} sent, {_failed(outcome)} failed, "
        f"worst {_worst(outcome)} ms, well after {_recovered(outcome)} s, rung {_rung(outcome)}"
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the table; a row with nothing but a name is a group's."""
    by_group = chain.from_iterable(grouped(outcomes, lambda one: one.group).values())
    return markdown(table_of(by_group, COLUMNS, group=lambda one: one.group))


def reasons(outcomes: Iterable[Outcome]) -> list[str]:
    """Return a line for each reason, after the names of its faults."""
    by_why = grouped(outcomes, lambda outcome: outcome.bound.why)
    return [f"{', '.join(one.fault for one in own)}: {why}" for why, own in by_why.items() if why]


def _failed(outcome: Outcome) -> str:
    kept = outcome.failed <= outcome.bound.failed
    if kept and not outcome.bound.failed:
        return "0"
    return against(f"{outcome.failed:,}", f"{outcome.bound.failed:,}", kept=kept)


def _worst(outcome: Outcome) -> str:
    if outcome.worst_ms is None:
        return ABSENT
    bound = outcome.bound
    kept = outcome.worst_ms <= bound.worst_ms
    worst = against(milliseconds(outcome.worst_ms), f"{bound.worst_ms:,.0f}", kept=kept)
    if bound.slow is None:
        return worst
    return f"{worst}, slow {against(str(outcome.slow), str(bound.slow), kept=outcome.slow <= bound.slow)}"


def _recovered(outcome: Outcome) -> str:
    bound = outcome.bound.recover_s
    if outcome.recover_s is None:
        return against(NEVER, f"{bound:g}", kept=False)
    return against(f"{outcome.recover_s:.1f}", f"{bound:g}", kept=outcome.recover_s <= bound)


def _rung(outcome: Outcome) -> str:
    if outcome.rung is None:
        return ABSENT
    kept = RUNGS.index(outcome.rung) <= RUNGS.index(outcome.bound.rung)
    return outcome.rung if kept else f"{outcome.rung} > {outcome.bound.rung}"


COLUMNS = (
    Column[Outcome]("fault", lambda one: one.fault, "left"),
    Column[Outcome]("sent", lambda one: f"{one.sent:,}"),
    Column[Outcome]("failed", _failed),
    Column[Outcome]("worst ms", _worst),
    Column[Outcome]("well again after s", _recovered),
    Column[Outcome]("rung", _rung, "left"),
    Column[Outcome]("", lambda one: PASS if one.passed else f"**{BROKEN}**", "left"),
)
