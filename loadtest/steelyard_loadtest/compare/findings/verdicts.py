"""The five sources: their findings, a sentence each, and the verdicts (template sources.md).

A source's file in files/ has our algorithm for each of its names, and its figures by name and level in the
order of `columns` (nan: not published). It has a table for each finding, all of whose keys are optional:

    [findings."The statement. (its place in the source)"]
    checks = ["requests_per_s: RR / LC at 100"]         lines of `comparisons`
    beside = ["requests_per_s: Steelyard / RR at 100"]  ours for comparison, without influence on the verdict
    note = "a fact that a reader needs to compare"
    cannot = "instead of checks: the reason why it cannot be measured here"
    why = "the reason why it did not reproduce here, written after the measurements and shown only then"

Several findings share a text of the table `remarks` by its name: why = "{swings}".
"""

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from steelyard_loadtest.compare.findings import comparisons
from steelyard_loadtest.compare.findings.comparisons import UNKNOWN, Compared, Grade, compare
from steelyard_loadtest.compare.findings.evidence import Figures, Terms, World, gather, with_derived
from steelyard_loadtest.figures.trial_figures import Summary
from steelyard_loadtest.templates import render_file

Verdict = Literal["reproduced", "partly", "not reproduced", "not measured yet", "cannot be measured"]

MARKS: Mapping[Grade | None, str] = {"reproduced": "✓ ", "partly": "≈ ", "not reproduced": "✗ ", None: ""}
NOT_EXPLAINED = "not yet explained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence of a source, and the keys of its table."""

    statement: str
    checks: Sequence[str] = ()
    beside: Sequence[str] = ()
    note: str = ""
    cannot: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A publication. mirrored: its experiment here."""

    title: str
    what: str
    mirrored: str
    terms: Terms
    findings: Sequence[Finding]


def parse(text: str) -> Source:
    """Read a source. Raises KeyError, TypeError or ValueError if it is invalid."""
    document = tomllib.loads(text)
    published = {
        name: {float(level): _figures(document["columns"], row) for level, row in rows.items()}
        for name, rows in document.get("published", {}).items()
    }
    terms = Terms(
        **{name: document[name] for name in ("scenario", "unit", "algorithms")}, published=published
    )
    remarks = document.get("remarks", {})
    findings = [_finding(statement, keys, remarks) for statement, keys in document["findings"].items()]
    for finding in findings:
        for line in (*finding.checks, *finding.beside):
            if any(one.theirs == UNKNOWN for one in compare(line, terms, {})) and line in finding.checks:
                raise ValueError(f"`{line}`: no published figure to judge it by")
    texts = {name: document[name] for name in ("title", "what", "mirrored")}
    return Source(**texts, terms=terms, findings=findings)


def _figures(columns: Sequence[str], row: Sequence[float]) -> Figures:
    known = {column: value for column, value in zip(columns, row, strict=True) if not math.isnan(value)}
    return with_derived(known)


def _finding(statement: str, keys: Mapping[str, Any], remarks: Mapping[str, str]) -> Finding:
    texts = {name: text.format_map(remarks) for name, text in keys.items() if isinstance(text, str)}
    return Finding(**{"statement": statement, **keys, **texts})


SOURCES = tuple(
    parse(Path(__file__).with_name("files").joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    for name in ("locust_study", "entropy_paper", "ns3", "vproxy", "tengine")
)


class Ruling(NamedTuple):
    """A finding with its verdict, its comparisons, and those measured comparisons of ours beside them."""

    finding: Finding
    verdict: Verdict
    judged: Sequence[Compared]
    beside: Sequence[Compared]

    @property
    def lines(self) -> list[tuple[str, str, str, str]]:
        """Return a line for each comparison: the figure, theirs, the bound, and ours."""
        lines = [(one.figure, one.theirs, one.rule, MARKS[one.grade] + one.here) for one in self.judged]
        if self.finding.cannot:
            lines.append(("", "", "", self.finding.cannot))
        return lines + [(f"*{one.figure}*", one.theirs, "", one.here) for one in self.beside]


def section(
    sources: Sequence[Source], summaries: Iterable[Summary], dataplane: Sequence[Mapping[str, str]] | None
) -> str:
    """Judge every finding of the sources and write it down.

    dataplane: the lines of dataplane.csv by `csv.DictReader`; None without that file.
    """
    world = gather(summaries, dataplane)
    ruled = [(source, rulings(source, world)) for source in sources]
    counts = [(source.title, Counter(ruling.verdict for ruling in own)) for source, own in ruled]
    total = sum((count for _, count in counts), Counter[Verdict]())
    values = {
        "verdicts": get_args(Verdict),
        "counts": [*counts, ("**all**", total)],
        "marks": {grade: mark.strip() for grade, mark in MARKS.items() if grade},
        "ruled": ruled,
        "not_explained": NOT_EXPLAINED,
        **{
            name: f"{100 * (getattr(comparisons, name) - 1):.3g} %"
            for name in ("NOISE", "ALIKE", "ROUGHLY", "NEARLY_BEST")
        },
    }
    return render_file(Path(__file__).with_name("sources.md"), values)


def rulings(source: Source, world: World) -> list[Ruling]:
    """Judge each finding by its measured comparisons."""
    ruled = []
    for finding in source.findings:
        judged, beside = (
            [one for line in lines for one in compare(line, source.terms, world)]
            for lines in (finding.checks, finding.beside)
        )
        grades = [one.grade for one in judged if one.grade]
        verdict: Verdict = "cannot be measured" if finding.cannot else verdict_of(grades)
        ruled.append(Ruling(finding, verdict, judged, [one for one in beside if one.grade]))
    return ruled


def verdict_of(grades: Sequence[Grade]) -> Verdict:
    """Return the common grade, or `partly` if grades differ; `not measured yet` without any."""
    if not grades:
        return "not measured yet"
    return grades[0] if len(set(grades)) == 1 else "partly"
