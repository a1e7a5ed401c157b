"""The headline: the target in every scenario. Pure."""

from collections import Counter
from collections.abc import Sequence

from steelyard_loadtest.lab.algorithms import BY_NAME, DEFAULT
from steelyard_loadtest.lab.figures.verdict import FAILURES_AT_MOST, Rival, Verdict
from steelyard_loadtest.lab.report import wording
from steelyard_loadtest.lab.report.table import Line, Table, without_empty
from steelyard_loadtest.lab.report.view import View

TARGET = (
    "p99 of Steelyard's default law and picker at or below the best online peer's: of the balancers of the"
    " same run that are not ours, were told nothing of the servers, and failed at most"
    f" {FAILURES_AT_MOST * 100:g} % of the requests, the one with the least p99."
)


HEAD = (
    "scenario", "level", "target", "best online peer", "best told",
    "ours p99 ms", "its p99 ms", "ratio", "told's p99 ms", "ratio to told",
)  # fmt: skip
WORDS = 5


def headline(views: Sequence[View]) -> str:
    """Say in one sentence where the target is met."""
    standings = Counter(verdict.standing for view in views for verdict in view.verdicts)
    judged = standings["met"] + standings["missed"] + standings["failed"]
    if not judged:
        return f"Nothing to judge: {BY_NAME[DEFAULT].title} and an online peer were not measured together."
    parts = [f"met at {standings['met']} of {judged} levels of load"]
    if standings["missed"]:
        parts.append(f"missed at {standings['missed']}")
    if standings["failed"]:
        parts.append(f"at {standings['failed']} too many of our requests failed")
    return f"The target is {wording.sentence(parts)}."


def table(views: Sequence[View]) -> Table:
    """Lay out every verdict: ours, the best online peer, and the best that was told the weights."""
    head, lines = without_empty(HEAD, [_line(view, verdict) for view in views for verdict in view.verdicts])
    return Table(
        title="The target",
        note=TARGET
        + " Medians over the repeats; ratio: ours over theirs, 1 or less is met. *Within the noise*: the"
        " repeats' ranges overlap, and another run might say otherwise. *Told* is the best of those that an"
        " operator told the servers' true weights, which online peers have to find out.",
        head=head,
        lines=lines,
        words=sum(name in HEAD[:WORDS] for name in head),
    )


def standing(verdict: Verdict) -> str:
    """Write how the target stands."""
    if verdict.standing == "failed":
        return f"failed: {wording.percent(verdict.failures_part, 2)} of ours failed"
    if verdict.standing == "no peer":
        return "no peer kept its failures low"
    noise = verdict.online is not None and verdict.online.within_noise
    return verdict.standing + (", within the noise" if noise else "")


def _line(view: View, verdict: Verdict) -> Line:
    return Line(
        cells=(
            view.scenario.name,
            wording.level(view.scenario.load, verdict.level),
            standing(verdict),
            _name(verdict.online),
            _name(verdict.told),
            wording.median(verdict.p99_ms),
            _p99(verdict.online),
            _ratio(verdict.online),
            _p99(verdict.told),
            _ratio(verdict.told),
        )
    )


def _name(rival: Rival | None) -> str:
    return wording.title(rival.algorithm) if rival else wording.ABSENT


def _p99(rival: Rival | None) -> str:
    return wording.median(rival.p99_ms if rival else None)


def _ratio(rival: Rival | None) -> str:
    return wording.ratio(rival.ratio if rival else None)
