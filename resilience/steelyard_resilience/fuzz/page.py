"""The tallies as lines of a terminal and as a table in Markdown. Pure."""

from collections.abc import Sequence

from steelyard_loadtest.reporting.markdown import Column, document, markdown, table

from steelyard_resilience.fuzz.target import Tally

MOST_REASONS = 4


def line(tally: Tally) -> str:
    """Return one line for a person."""
    name = f"{tally.target:<18} {tally.method:<14}"
    counts = f"{tally.tried:>8,} inputs  {tally.accepted:>7,} accepted  {len(tally.violations)} violations"
    return f"{name} {counts}  {_refused(tally) or ''}".rstrip()


def reasons(tally: Tally) -> str:
    """Return the refusals by reason, the most frequent ones."""
    shown = [f"{reason} {count:,}" for reason, count in tally.refused[:MOST_REASONS]]
    others = sum(count for _, count in tally.refused[MOST_REASONS:])
    return ", ".join([*shown, *([f"others {others:,}"] if others else [])])


def summary(tallies: Sequence[Tally]) -> str:
    """Return the sums in a sentence."""
    tried, violations = sum(tally.tried for tally in tallies), sum(len(tally.violations) for tally in tallies)
    targets = {tally.target for tally in tallies}
    return f"{tried:,} inputs to {len(targets)} targets: {violations} violations"


def page(tallies: Sequence[Tally], *, conditions: str) -> str:
    """Return the section of a page."""
    return document(f"**{summary(tallies)}.** {conditions}", markdown(table(tallies, COLUMNS)))


def _refused(tally: Tally) -> str | None:
    return "; ".join(part for part in (reasons(tally), *tally.notes) if part) or None


COLUMNS = (
    Column[Tally]("target", lambda tally: tally.target, "left"),
    Column[Tally]("input", lambda tally: tally.about, "left"),
    Column[Tally]("how", lambda tally: tally.method, "left"),
    Column[Tally]("inputs", lambda tally: f"{tally.tried:,}"),
    Column[Tally]("accepted", lambda tally: f"{tally.accepted:,}"),
    Column[Tally]("refused", _refused, "left"),
    Column[Tally]("violations", lambda tally: f"{len(tally.violations):,}"),
)
