"""The findings as a part of docs/benchmarks.md, each with its verdict: template page.md beside this file."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from steelyard_loadtest.compare.findings import comparisons
from steelyard_loadtest.compare.findings.comparisons import Compared, Grade, compare
from steelyard_loadtest.compare.findings.evidence import World, gather
from steelyard_loadtest.compare.findings.sources import Finding, Source
from steelyard_loadtest.figures.trial_figures import Summary
from steelyard_loadtest.templates import render_file

Verdict = Literal["reproduced", "partly", "not reproduced", "not measured"]

MARKS: Mapping[Grade | None, str] = {"reproduced": "✓ ", "partly": "≈ ", "not reproduced": "✗ ", None: ""}
NOT_EXPLAINED = "not yet explained"


class Ruling(NamedTuple):
    """A finding with its verdict, its comparisons, and those of ours beside them that were measured."""

    finding: Finding
    verdict: Verdict
    judged: Sequence[Compared]
    beside: Sequence[Compared]

    @property
    def lines(self) -> list[tuple[str, str, str, str]]:
        """Return a line a comparison: the figure, theirs, when it is reproduced, and ours."""
        lines = [(one.figure, one.theirs, one.rule, MARKS[one.grade] + one.here) for one in self.judged]
        if self.finding.cannot:
            lines.append(("", "", "", f"not measured: {self.finding.cannot}"))
        return lines + [(f"*{one.figure}*", one.theirs, "", one.here) for one in self.beside]


def section(
    sources: Sequence[Source], summaries: Iterable[Summary], dataplane: Sequence[Mapping[str, str]] | None
) -> str:
    """Judge every finding of the sources and write it down.

    dataplane: the lines of dataplane.csv by `csv.DictReader`; None where there is none.
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
    return render_file(Path(__file__).with_name("page.md"), values)


def rulings(source: Source, world: World) -> list[Ruling]:
    """Judge each finding by those of its comparisons that were measured."""
    ruled = []
    for finding in source.findings:
        judged, beside = (
            [one for line in lines for one in compare(line, source.terms, world)]
            for lines in (finding.checks, finding.beside)
        )
        verdict = verdict_of([one.grade for one in judged if one.grade])
        ruled.append(Ruling(finding, verdict, judged, [one for one in beside if one.grade]))
    return ruled


def verdict_of(grades: Sequence[Grade]) -> Verdict:
    """All alike: that; otherwise `partly`; none at all: `not measured`."""
    if not grades:
        return "not measured"
    return grades[0] if len(set(grades)) == 1 else "partly"
