"""What libFuzzer and schemathesis say is read, and tallies become lines and a table."""

import pytest
from steelyard_resilience.fuzz import by_atheris, page
from steelyard_resilience.fuzz.target import ACCEPTED, Tally, Violation
from steelyard_resilience.fuzz.targets import targets
from steelyard_resilience.fuzz.tool_output import parse_libfuzzer, parse_schemathesis, statuses

LIBFUZZER = """INFO: Seed: 5
#2\tINITED cov: 6 ft: 6 corp: 1/1b exec/s: 0 rss: 44Mb
#26615\tDONE   cov: 70 ft: 179 corp: 90/12Kb lim: 4096 exec/s: 13307 rss: 80Mb
Done 26615 runs in 2 second(s)
"""

CRASHED = """#2\tINITED cov: 6 ft: 7 corp: 1/1b exec/s: 0 rss: 44Mb
==1== ERROR: libFuzzer: fuzz target exited
artifact_prefix='folder/'; Test unit written to folder/crash-da39
"""

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
    method="atheris",
    about="a|b",
    tried=1234,
    outcomes={ACCEPTED: 34, "type": 1000, "range": 100, "a": 50, "b": 30, "c": 15, "d": 5},
    reached="70 edges",
    notes=("2 x 1e2",),
)


def test_libfuzzer_says_how_far_it_came() -> None:
    assert parse_libfuzzer(LIBFUZZER) == ("70 edges, 179 features", None)


def test_libfuzzer_says_where_a_crash_is() -> None:
    assert parse_libfuzzer(CRASHED) == ("6 edges, 7 features", "folder/crash-da39")


def test_libfuzzer_that_says_nothing_reached_nothing() -> None:
    assert parse_libfuzzer("") == ("", None)


def test_schemathesis_says_what_failed() -> None:
    failures = ["ST204 Wrong response to undeclared method: 1"]
    assert parse_schemathesis(SCHEMATHESIS) == (17, 127, failures)


def test_statuses_are_counted_and_successes_summed() -> None:
    events = '{"status_code":200}\n{"status_code": 204}\n{"status_code":401}'
    assert statuses(events) == {ACCEPTED: 2, "HTTP 401": 1}


def test_a_line_has_the_most_frequent_reasons() -> None:
    line = page.line(TALLY)
    assert "1,234 inputs" in line
    assert line.endswith("70 edges; type 1,000, range 100, a 50, b 30, others 20; 2 x 1e2")


def test_a_page_has_the_sums_and_a_row_each() -> None:
    broken = Tally(
        target="x", method="atheris", tried=1, violations=(Violation(what="it raises", input=b""),)
    )
    skipped = Tally(target="y", method="atheris", skipped="it is not here")
    text = page.page([TALLY, broken, skipped], conditions="1 s each.")
    assert text.startswith("**1,235 inputs to 2 targets: 1 violations.** 1 s each.\n")
    assert "| sample | a\\|b | atheris | 1,234 | 34 |" in text
    assert "| y |  | atheris | – | – | it is not here | – | – |" in text


@pytest.mark.integration
@pytest.mark.skipif(by_atheris.missing() is not None, reason=str(by_atheris.missing()))
def test_what_libfuzzer_tries_is_counted_in_another_process() -> None:
    lease = next(target for target in targets() if target.name == "lease")
    (tally,) = by_atheris.run([lease], seconds=0.1, seed=3)
    assert tally.tried == sum(tally.outcomes.values()) >= by_atheris.SHORT_RUNS
    assert set(tally.outcomes) == {ACCEPTED, "damaged"}
    assert "edges" in tally.reached
