"""The page of versions: what was run, and what differs. Pure."""

from collections.abc import Mapping, Sequence

from testing.versions.suites import Outcome

Facts = Mapping[str, Mapping[str, str]]
"""By version, the facts by their headings."""


def text(
    date: str, machine: str, rows: Sequence[tuple[str, str, Outcome]], facts: Facts, left_out: Sequence[str]
) -> str:
    """Return the part of the page that one run writes."""
    parts = [f"Run on {date}: {machine}."]
    if left_out:
        parts.append(f"Not run: {'; '.join(left_out)}.")
    table: list[tuple[str, ...]]
    if rows:
        table = [
            ("program or library", "tests", "passed", "skipped", "failed"),
            ("---", "---", "--:", "--:", "---"),
            *(
                (of, tests, str(seen.passed), str(seen.skipped), "<br>".join(map(_code, seen.failed)) or "0")
                for of, tests, seen in rows
            ),
        ]
        parts.append(_table(table))
    if facts:
        versions = list(facts)
        headings = list(dict.fromkeys(name for each in facts.values() for name in each))
        table = [
            ("Envoy", *versions),
            ("---", *("---" for _ in versions)),
            *((heading, *(facts[each].get(heading, "") for each in versions)) for heading in headings),
        ]
        parts.append(_table(table))
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _code(name: str) -> str:
    return f"`{name}`"
