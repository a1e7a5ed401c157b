"""What a source found, what would show it here, and what was shown. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from steelyard_loadtest.lab.findings.evidence import Evidence

Grade = Literal["reproduced", "partly", "not reproduced"]
Verdict = Literal["reproduced", "partly", "not reproduced", "not measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Our figure as text, and what it says about theirs."""

    here: str
    grade: Grade


class Check(Protocol):
    """One comparison of their figure with ours."""

    @property
    def figure(self) -> str:
        """Say what is compared."""

    @property
    def theirs(self) -> str:
        """Say what was published."""

    @property
    def rule(self) -> str:
        """Say what ours must be for the finding to be reproduced."""

    def judge(self, evidence: Evidence) -> Answer:
        """Return our figure and its grade. Raises LackingError."""


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
