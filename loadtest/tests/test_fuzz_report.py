"""What libFuzzer and schemathesis say is read, and tallies become lines and a table."""

from pathlib import Path

import pytest
from steelyard_loadtest.fuzz import counters, libfuzzer, report, schemathesis_said
from steelyard_loadtest.fuzz.model import ACCEPTED, Tally, Violation

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
    said = libfuzzer.parse(LIBFUZZER)
    assert (said.runs, said.edges, said.features, said.corpus, said.crash) == (26615, 70, 179, 90, None)
    assert said.reached == "70 edges, 179 features"


def test_libfuzzer_says_where_a_crash_is() -> None:
    said = libfuzzer.parse(CRASHED)
    assert (said.runs, said.crash) == (2, "folder/crash-da39")


def test_libfuzzer_that_says_nothing_reached_nothing() -> None:
    assert libfuzzer.parse("").reached == ""


def test_schemathesis_says_what_failed() -> None:
    said = schemathesis_said.parse(SCHEMATHESIS)
    assert (said.operations, said.generated) == (17, 127)
    assert said.failures == ("ST204 Wrong response to undeclared method: 1",)


def test_statuses_are_counted_and_successes_summed() -> None:
    events = '{"status_code":200}\n{"status_code": 204}\n{"status_code":401}'
    assert schemathesis_said.statuses(events) == {ACCEPTED: 2, "HTTP 401": 1}


def test_a_line_has_the_most_frequent_reasons() -> None:
    line = report.line(TALLY)
    assert "1,234 inputs" in line
    assert line.endswith("70 edges; type 1,000, range 100, a 50, b 30, others 20; 2 x 1e2")


def test_a_page_has_the_sums_and_a_row_each() -> None:
    broken = Tally(
        target="x", method="atheris", tried=1, violations=(Violation(what="it raises", input=b""),)
    )
    skipped = Tally(target="y", method="atheris", skipped="it is not here")
    page = report.page([TALLY, broken, skipped], conditions="1 s each.")
    assert page.startswith("**1,235 inputs to 2 targets: 1 violations.** 1 s each.\n")
    assert "| sample | a\\|b | atheris | 1,234 | 34 |" in page
    assert "| y |  | atheris | – | – | it is not here | – | – |" in page


def test_counts_outlive_their_writer(tmp_path: Path) -> None:
    file = tmp_path / "counts"
    writer = counters.Writer(file)
    for name in ("accepted", "type", "accepted"):
        writer.add(name)
    assert counters.read(file) == {"accepted": 2, "type": 1}
    assert counters.read(tmp_path / "none") == {}


def test_too_many_different_outcomes_are_an_error(tmp_path: Path) -> None:
    writer = counters.Writer(tmp_path / "counts")
    for number in range(counters.SIZE // 128):
        writer.add(f"reason {number}")
    with pytest.raises(ValueError, match="'another' is one too many"):
        writer.add("another")
