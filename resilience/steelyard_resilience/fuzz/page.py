"""The tallies as lines of a terminal and as a table in Markdown. Pure."""

from collections.abc import Callable, Sequence

from steelyard_loadtest.reporting.markdown import document
from steelyard_loadtest.reporting.tables import Column, markdown, table
from steelyard_loadtest.reporting.wording import ABSENT

from steelyard_resilience.fuzz.target import Tally

MOST_REASONS = 4


def line(tally: Tally) -> str:
    """Return one line for a person."""
    name = f"{tally.target:<18} {tally.method:<14}"
    if tally.skipped:
        return f"{name} skipped: {tally.skipped}"
    counts = f"{tally.tried:>8,} inputs  {tally.accepted:>7,} accepted  {len(tally.violations)} violations"
    more = [part for part in (tally.reached, reasons(tally), *tally.notes) if part]
    return f"{name} {counts}{'  ' if more else ''}{'; '.join(more)}"


def reasons(tally: Tally) -> str:
    """Return the refusals by reason, the most frequent ones."""
    shown = [f"{reason} {count:,}" for reason, count in tally.refused[:MOST_REASONS]]
    others = sum(count for _, count in tally.refused[MOST_REASONS:])
    return ", ".join([*shown, *([f"others {others:,}"] if others else [])])


def summary(tallies: Sequence[Tally]) -> str:
    """Return the sums in a sentence."""
    tried, violations = sum(tally.tried for tally in tallies), sum(len(tally.violations) for tally in tallies)
    targets = {tally.target for tally in tallies if not tally.skipped}
    return f"{tried:,} inputs to {len(targets)} targets: {violations} violations"


def page(tallies: Sequence[Tally], *, conditions: str) -> str:
    """Return the section of a page."""
    return document(f"**{summary(tallies)}.** {conditions}", markdown(table(tallies, COLUMNS)))


def _if_tried(count: Callable[[Tally], int]) -> Callable[[Tally], str | None]:
    return lambda tally: None if tally.skipped else f"{count(tally):,}"


def _refused(tally: Tally) -> str | None:
    return tally.skipped or "; ".join(part for part in (reasons(tally), *tally.notes) if part) or ABSENT


COLUMNS = (
    Column[Tally]("target", lambda tally: tally.target, "left"),
    Column[Tally]("input", lambda tally: tally.about, "left"),
    Column[Tally]("how", lambda tally: tally.method, "left"),
    Column[Tally]("inputs", _if_tried(lambda tally: tally.tried)),
    Column[Tally]("accepted", _if_tried(lambda tally: tally.accepted)),
    Column[Tally]("refused", _refused, "left"),
    Column[Tally]("coverage", lambda tally: tally.reached or ABSENT, "left"),
    Column[Tally]("violations", _if_tried(lambda tally: len(tally.violations))),
)
