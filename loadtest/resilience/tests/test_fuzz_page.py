"""Tallies become lines and a table."""

from steelyard_resilience.fuzz import target
from steelyard_resilience.fuzz.target import ACCEPTED, Tally, Violation

TALLY = Tally(
    target="sample",
    method="generated",
    about="a|b",
    outcomes={ACCEPTED: 34, "type": 1000, "range": 100, "a": 50, "b": 30, "c": 15, "d": 5},
    notes=("2 x 1e2",),
)


def test_a_line_has_the_most_frequent_reasons() -> None:
    line = target.line(TALLY)
    assert "1,234 inputs" in line
    assert line.endswith("type 1,000, range 100, a 50, b 30, others 20; 2 x 1e2")


def test_a_page_has_the_sums_and_a_row_each() -> None:
    broken = Tally(target="x", method="generated", violations=(Violation(what="it raises", input=b""),))
    text = target.page([TALLY, broken], conditions="1 s each.")
    assert text.startswith("**1,235 inputs to 2 targets: 1 violations.** 1 s each.\n")
    assert "| sample | a\\|b | generated | 1,234 | 34 |" in text
