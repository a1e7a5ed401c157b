"""The tallies as lines of a terminal and as a table in Markdown. Pure."""

from collections.abc import Sequence

from steelyard_loadtest.fuzz.model import Tally

MOST_REASONS = 4

HEAD = ("target", "input", "how", "inputs", "accepted", "refused", "coverage", "violations")


def line(tally: Tally) -> str:
    """Return one line for a person."""
    name = f"{tally.target:<18} {tally.method:<14}"
    if tally.skipped:
        return f"{name} skipped: {tally.skipped}"
    parts = [
        f"{tally.tried:>8,} inputs",
        f"{tally.accepted:>7,} accepted",
        f"{len(tally.violations)} violations",
    ]
    more = [part for part in (tally.reached, reasons(tally), *tally.notes) if part]
    return f"{name} {'  '.join(parts)}{'  ' if more else ''}{'; '.join(more)}"


def reasons(tally: Tally) -> str:
    """Return the refusals by reason, the most frequent ones."""
    refused = list(tally.refused.items())
    shown = [f"{reason} {count:,}" for reason, count in refused[:MOST_REASONS]]
    others = sum(count for _, count in refused[MOST_REASONS:])
    return ", ".join([*shown, *([f"others {others:,}"] if others else [])])


def summary(tallies: Sequence[Tally]) -> str:
    """Return the sums in a sentence."""
    tried, found = sum(tally.tried for tally in tallies), sum(len(tally.violations) for tally in tallies)
    targets = {tally.target for tally in tallies if not tally.skipped}
    return f"{tried:,} inputs to {len(targets)} targets: {found} violations"


def page(tallies: Sequence[Tally], *, conditions: str) -> str:
    """Return the section of a page."""
    rows = [HEAD, ("---", "---", "---", "---:", "---:", "---", "---", "---:")]
    for tally in tallies:
        rows.append(
            (
                tally.target,
                tally.about,
                tally.method,
                "–" if tally.skipped else f"{tally.tried:,}",
                "–" if tally.skipped else f"{tally.accepted:,}",
                tally.skipped or "; ".join(part for part in (reasons(tally), *tally.notes) if part) or "–",
                tally.reached or "–",
                "–" if tally.skipped else str(len(tally.violations)),
            )
        )
    table = "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)
    return f"**{summary(tallies)}.** {conditions}\n\n{table}\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
