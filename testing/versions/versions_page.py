"""The page of versions: what was run, and what differs. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from testing.versions.kept_results import Result
from testing.versions.suites import Outcome

Facts = Mapping[str, Mapping[str, str]]
"""By version, the facts by their headings."""


def text(machine: str, parts: Sequence[str], results: Sequence[Result], facts: Facts) -> str:
    """Return the part of the page that the command writes: all results, whenever each was run."""
    found = sorted(results, key=lambda each: (parts.index(each.part), each.subject, each.tests))
    rows = [_row(list(group)) for _, group in groupby(found, key=lambda each: (each.subject, each.tests))]
    left_out = [part for part in parts if all(each.part != part for each in found)]
    paragraphs = [f"Run on {machine}."]
    if left_out:
        paragraphs.append(f"Not run: {'; '.join(left_out)}.")
    if rows:
        heads = ("program or library", "tests", "passed", "skipped", "failed", "run")
        paragraphs.append(_table([heads, ("---", "---", "--:", "--:", "---", "---"), *rows]))
    paragraphs += [_list(title, names) for title, names in _remarks(found) if names]
    if facts:
        versions = list(facts)
        headings = list(dict.fromkeys(name for each in facts.values() for name in each))
        table: list[tuple[str, ...]] = [
            ("Envoy", *versions),
            ("---", *("---" for _ in versions)),
            *((heading, *(facts[each].get(heading, "") for each in versions)) for heading in headings),
        ]
        paragraphs.append(_table(table))
    return "\n\n".join(paragraphs) + "\n"


def _row(steps: Sequence[Result]) -> tuple[str, ...]:
    first, seen = steps[0], _sum(steps)
    tests = first.tests
    if len(steps) < first.steps:
        tests += f" ({len(steps)} of {first.steps} steps)"
    failed = "<br>".join(map(_code, seen.failed)) or "0"
    dates = sorted({each.date for each in steps})
    commits = sorted({each.commit for each in steps})
    run = f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}, {', '.join(map(_code, commits))}"
    return first.subject, tests, str(seen.passed), str(sum(seen.skipped.values())), failed, run


def _remarks(results: Sequence[Result]) -> Iterable[tuple[str, Sequence[str]]]:
    by_subject = {
        subject: _sum(list(group)) for subject, group in groupby(results, key=lambda each: each.subject)
    }
    skipped: dict[str, Counter[str]] = {}
    for subject, seen in by_subject.items():
        for reason, count in seen.skipped.items():
            skipped.setdefault(reason, Counter())[subject] += count
    yield (
        "Skipped",
        [
            f"{reason.rstrip('.')}: {', '.join(f'{count} on {subject}' for subject, count in counts.items())}"
            for reason, counts in skipped.items()
        ],
    )
    yield (
        "Passed at the second try",
        [
            f"{subject}: {', '.join(map(_code, seen.second_try))}"
            for subject, seen in by_subject.items()
            if seen.second_try
        ],
    )


def _sum(steps: Sequence[Result]) -> Outcome:
    return sum((each.outcome for each in steps), Outcome())


def _list(title: str, names: Sequence[str]) -> str:
    return "\n".join([f"{title}:", "", *(f"- {name}" for name in names)])


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _code(name: str) -> str:
    return f"`{name}`"
