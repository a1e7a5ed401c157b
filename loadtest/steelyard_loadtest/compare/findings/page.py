"""The findings as a part of docs/benchmarks.md: the template page.md beside this file, filled in."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from steelyard_loadtest.compare.findings import grades
from steelyard_loadtest.compare.findings.finding import Grade, Ruling, Source, Verdict, rule
from steelyard_loadtest.compare.findings.measured_figures import gather
from steelyard_loadtest.figures.summary import Summary
from steelyard_loadtest.templates import render_file

MARKS: Mapping[Grade, str] = {"reproduced": "✓", "partly": "≈", "not reproduced": "✗"}
NOT_EXPLAINED = "not yet explained"


def section(
    sources: Sequence[Source], summaries: Iterable[Summary], dataplane: Sequence[Mapping[str, str]] | None
) -> str:
    """Judge every finding of the sources and write it down.

    dataplane: the lines of dataplane.csv by `csv.DictReader`; None where there is none.
    """
    evidence = gather(summaries, dataplane)
    ruled = [(source, [rule(finding, evidence) for finding in source.findings]) for source in sources]
    counts = [(source.title, Counter(ruling.verdict for ruling in rulings)) for source, rulings in ruled]
    total = sum((count for _, count in counts), Counter[Verdict]())
    values = {
        "verdicts": get_args(Verdict),
        "counts": [*counts, ("**all**", total)],
        "marks": MARKS,
        "ruled": ruled,
        "lines": _lines,
        "not_explained": NOT_EXPLAINED,
        **{name: _percent(getattr(grades, name)) for name in ("NOISE", "ALIKE", "ROUGHLY", "NEARLY_BEST")},
    }
    return render_file(Path(__file__).with_name("page.md"), values)


def _lines(ruling: Ruling) -> list[tuple[str, str, str, str]]:
    """A line a comparison: the figure, theirs, when it is reproduced, and ours."""
    lines = [
        (check.figure, check.theirs, check.rule, f"{MARKS[answer.grade]} {answer.here}")
        if answer.grade
        else (check.figure, check.theirs, check.rule, f"not measured: needs {answer.lacking}")
        for check, answer in ruling.judged
    ]
    if ruling.finding.cannot:
        lines.append(("", "", "", f"not measured: {ruling.finding.cannot}"))
    beside = [(check, answer) for check, answer in ruling.beside if answer.grade]
    return lines + [(f"*{check.figure}*", check.theirs, "", answer.here) for check, answer in beside]


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):.3g} %"
