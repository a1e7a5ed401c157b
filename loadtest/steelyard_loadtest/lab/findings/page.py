"""The findings as a part of docs/benchmarks.md, in Markdown. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from steelyard_loadtest.lab.figures.summary import Summary
from steelyard_loadtest.lab.findings.finding import Answer, Grade, Source, Verdict
from steelyard_loadtest.lab.findings.gather import gather
from steelyard_loadtest.lab.findings.grades import ALIKE, NEARLY_BEST, NOISE, ROUGHLY
from steelyard_loadtest.lab.findings.judge import Judged, Ruling, rule
from steelyard_loadtest.lab.findings.sources import SOURCES

MARKS: Mapping[Grade, str] = {"reproduced": "✓", "partly": "≈", "not reproduced": "✗"}
NOT_EXPLAINED = "not yet explained"

HEAD = ("", "finding", "verdict", "figure", "theirs", "reproduced if", "here")


def section(summaries: Iterable[Summary], dataplane: Sequence[Mapping[str, str]] | None) -> str:
    """Judge every finding and write it down.

    dataplane: the lines of dataplane.csv by `csv.DictReader`; None where there is none.
    """
    evidence = gather(summaries, dataplane)
    ruled = [(source, [rule(finding, evidence) for finding in source.findings]) for source in SOURCES]
    parts = ["## What the five sources found", overview(ruled), _rules()]
    parts += [
        part for place, (source, rulings) in enumerate(ruled, 1) for part in _source(place, source, rulings)
    ]
    return "\n\n".join(parts) + "\n"


def overview(ruled: Sequence[tuple[Source, Sequence[Ruling]]]) -> str:
    """Count the verdicts of each source."""
    verdicts: tuple[Verdict, ...] = get_args(Verdict)
    counts = [(source.title, Counter(ruling.verdict for ruling in rulings)) for source, rulings in ruled]
    total = sum((count for _, count in counts), Counter[Verdict]())
    return _table(
        ("source", "findings", *verdicts),
        [
            (title, str(count.total()), *(str(count[verdict]) for verdict in verdicts))
            for title, count in (*counts, ("**all**", total))
        ],
    )


def table(place: int, rulings: Sequence[Ruling]) -> str:
    """Write one line a comparison; a finding's first line has its sentence and its verdict."""
    return _table(
        HEAD, [row for number, ruling in enumerate(rulings, 1) for row in _rows(f"{place}.{number}", ruling)]
    )


def _rules() -> str:
    marks = ", ".join(f"{mark} {grade}" for grade, mark in MARKS.items())
    return f"""How a figure is judged ({marks}):

- A *ratio* is reproduced by half of their effect or more, on the logarithmic scale: the bound is the square
  root of their ratio. Less than half is partly; within {_percent(NOISE)} of no effect, or the other way
  round, is not.
- *Largest / smallest* of what they call alike is within {_percent(ALIKE)}, or within their own difference
  where that is larger; partly within {_percent(ROUGHLY)}.
- The *highest* or *lowest* is at or beyond the best of the others; partly within {_percent(NEARLY_BEST)}
  of it.
- *Curves* are judged at those of the levels that were measured: so at all of them, at half or more (partly),
  or at fewer.
- A finding is what all of its figures say; partly where they disagree. Figures in italics stand beside:
  no verdict hangs on them."""


def _source(place: int, source: Source, rulings: Sequence[Ruling]) -> list[str]:
    names = ", ".join(f"{theirs} = {_code(ours)}" for theirs, ours in source.names.items())
    parts = [
        f"### {place}. {source.title}",
        f"{source.what} Here: {source.mirrored}. Names: {names}.",
        table(place, rulings),
    ]
    reasons = [
        f"- {place}.{number}: {ruling.finding.why or NOT_EXPLAINED}"
        for number, ruling in enumerate(rulings, 1)
        if ruling.verdict == "not reproduced"
    ]
    if reasons:
        parts.append("Why not:\n\n" + "\n".join(reasons))
    notes = [
        f"- {place}.{number}: {ruling.finding.note}"
        for number, ruling in enumerate(rulings, 1)
        if ruling.finding.note
    ]
    if notes:
        parts.append("To be known:\n\n" + "\n".join(notes))
    return parts


def _rows(place: str, ruling: Ruling) -> list[tuple[str, ...]]:
    finding = ruling.finding
    lines = [_line(judged) for judged in ruling.judged]
    if finding.cannot:
        lines.append(("", "", "", f"not measured: {finding.cannot}"))
    lines += [_beside(judged, judged.answer) for judged in ruling.beside if judged.answer]
    first = (place, f"{finding.statement} ({finding.where})", f"**{ruling.verdict}**")
    return [(*(first if line is lines[0] else ("", "", "")), *line) for line in lines]


def _line(judged: Judged) -> tuple[str, ...]:
    check = judged.check
    here = f"not measured: needs {judged.lacking}"
    if judged.answer:
        here = f"{MARKS[judged.answer.grade]} {judged.answer.here}"
    return (check.figure, check.theirs, check.rule, here)


def _beside(judged: Judged, answer: Answer) -> tuple[str, ...]:
    return (f"*{judged.check.figure}*", judged.check.theirs, "", answer.here)


def _code(name: str) -> str:
    return name if " " in name else f"`{name}`"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):.3g} %"


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
