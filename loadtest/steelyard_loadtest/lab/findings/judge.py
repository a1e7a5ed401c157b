"""A finding's verdict out of the grades of its comparisons. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard_loadtest.lab.findings.evidence import Evidence, LackingError
from steelyard_loadtest.lab.findings.finding import Answer, Check, Finding, Grade, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One comparison. answer None: `lacking` says what must be measured for it."""

    check: Check
    answer: Answer | None
    lacking: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """A finding with its verdict, its comparisons, and ours beside them."""

    finding: Finding
    verdict: Verdict
    judged: tuple[Judged, ...]
    beside: tuple[Judged, ...]


def rule(finding: Finding, evidence: Evidence) -> Ruling:
    """Judge a finding by those of its comparisons that were measured."""
    judged = tuple(_judge(check, evidence) for check in finding.checks)
    return Ruling(
        finding=finding,
        verdict=verdict([entry.answer.grade for entry in judged if entry.answer]),
        judged=judged,
        beside=tuple(_judge(check, evidence) for check in finding.beside),
    )


def verdict(grades: Sequence[Grade]) -> Verdict:
    """All alike: that; otherwise `partly`; none at all: `not measured`."""
    if not grades:
        return "not measured"
    return grades[0] if len(set(grades)) == 1 else "partly"


def _judge(check: Check, evidence: Evidence) -> Judged:
    try:
        return Judged(check=check, answer=check.judge(evidence))
    except LackingError as lacking:
        return Judged(check=check, answer=None, lacking=str(lacking))
