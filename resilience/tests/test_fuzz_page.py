"""What schemathesis says is read, and tallies become lines and a table."""

from steelyard_resilience.fuzz import page
from steelyard_resilience.fuzz.target import ACCEPTED, Tally, Violation
from steelyard_resilience.fuzz.tool_output import parse_schemathesis, statuses

SCHEMATHESIS = """API Operations:
  Selected: 17/18
  Tested: 17

Test Phases:
  ✅ Examples
  ❌ Coverage

Failures:
  ❌ ST204 Wrong response to undeclared method: 1

Test cases:
  127 generated, 1 found 1 unique failure
"""

TALLY = Tally(
    target="sample",
    method="hypothesis",
    about="a|b",
    tried=1234,
    outcomes={ACCEPTED: 34, "type": 1000, "range": 100, "a": 50, "b": 30, "c": 15, "d": 5},
    notes=("2 x 1e2",),
)


def test_schemathesis_says_what_failed() -> None:
    failures = ["ST204 Wrong response to undeclared method: 1"]
    assert parse_schemathesis(SCHEMATHESIS) == (17, 127, failures)


def test_statuses_are_counted_and_successes_summed() -> None:
    events = '{"status_code":200}\n{"status_code": 204}\n{"status_code":401}'
    assert statuses(events) == {ACCEPTED: 2, "HTTP 401": 1}


def test_a_line_has_the_most_frequent_reasons() -> None:
    line = page.line(TALLY)
    assert "1,234 inputs" in line
    assert line.endswith("type 1,000, range 100, a 50, b 30, others 20; 2 x 1e2")


def test_a_page_has_the_sums_and_a_row_each() -> None:
    broken = Tally(
        target="x", method="hypothesis", tried=1, violations=(Violation(what="it raises", input=b""),)
    )
    text = page.page([TALLY, broken], conditions="1 s each.")
    assert text.startswith("**1,235 inputs to 2 targets: 1 violations.** 1 s each.\n")
    assert "| sample | a\\|b | hypothesis | 1,234 | 34 |" in text
