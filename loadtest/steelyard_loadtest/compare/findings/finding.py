"""What a source found, what would show it here, what was shown, and the verdict. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from steelyard_loadtest.compare.findings.measured_figures import Evidence, LackingError

Grade = Literal["reproduced", "partly", "not reproduced"]
Verdict = Literal["reproduced", "partly", "not reproduced", "not measured"]
Published = Mapping[str, Mapping[float, Mapping[str, float]]]
"""Figures of a source by its name for an algorithm, level and metric; what it does not give is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Our figure as text, and what it says about theirs; without a grade, what must be measured for it."""

    here: str = ""
    grade: Grade | None = None
    lacking: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison of their figure with ours.

    figure: what is compared. theirs: what was published. rule: what ours must be for the finding to be
    reproduced. judge: from the evidence to our figure and its grade; raises LackingError.
    """

    figure: str
    theirs: str
    rule: str
    judge: Callable[[Evidence], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence of a source.

    where: table, figure or section. beside: ours in the same place, on which no
    verdict hangs. note: what a reader must know to compare. cannot:
    why it cannot be measured here at all. why: why it did not reproduce here, written
    after the measurements and shown only then.
    """

    statement: str
    where: str
    checks: tuple[Check, ...] = ()
    beside: tuple[Check, ...] = ()
    note: str = ""
    cannot: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A publication. mirrored: how its experiment is done here. names: its names for what ours are called."""

    title: str
    what: str
    mirrored: str
    names: Mapping[str, str]
    findings: tuple[Finding, ...]
    published: Published = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """A finding with its verdict, its comparisons, and ours beside them."""

    finding: Finding
    verdict: Verdict
    judged: tuple[tuple[Check, Answer], ...]
    beside: tuple[tuple[Check, Answer], ...]


def rule(finding: Finding, evidence: Evidence) -> Ruling:
    """Judge a finding by those of its comparisons that were measured."""
    judged, beside = (
        tuple((check, _judge(check, evidence)) for check in checks)
        for checks in (finding.checks, finding.beside)
    )
    found = verdict([answer.grade for _, answer in judged if answer.grade])
    return Ruling(finding=finding, verdict=found, judged=judged, beside=beside)


def verdict(grades: Sequence[Grade]) -> Verdict:
    """All alike: that; otherwise `partly`; none at all: `not measured`."""
    if not grades:
        return "not measured"
    return grades[0] if len(set(grades)) == 1 else "partly"


def _judge(check: Check, evidence: Evidence) -> Answer:
    try:
        return check.judge(evidence)
    except LackingError as lacking:
        return Answer(lacking=str(lacking))
