"""The outcomes of a run, their files, and the page that it writes."""

from dataclasses import replace
from pathlib import Path

from testing.versions import suites, versions_page
from testing.versions.kept_results import KeptResults, Result
from testing.versions.suites import Outcome

REPORT = """<testsuites><testsuite>
<testcase name="test_a"/><testcase classname="f" name="test_b[1]"><failure>no</failure></testcase>
<testcase name="test_c"><skipped message="no stream"/></testcase>
<testcase classname="" name="tests.f"><error>no</error></testcase>
</testsuite></testsuites>"""

PARTS = ("envoy", "nginx")


def _result(step: str = "xds", outcome: Outcome | None = None, steps: int = 1) -> Result:
    return Result(
        part="envoy",
        subject="Envoy 1.36.4",
        tests="xDS, ORCA",
        step=step,
        steps=steps,
        date="2026-11-28",
        commit="abcdef12",
        outcome=outcome or Outcome(passed=9),
    )


def test_an_outcome_counts_tests_and_names_those_that_failed() -> None:
    seen = suites.outcome(REPORT)
    assert seen == Outcome(passed=1, skipped={"no stream": 1}, failed=("test_b[1]", "collection of tests.f"))
    assert (seen + seen).skipped == {"no stream": 2}


def test_a_test_that_ran_again_counts_once_as_it_ended() -> None:
    first, again = '<testcase name="test_a"><failure>no</failure></testcase>', '<testcase name="test_a"/>'
    assert suites.outcome(f"<testsuite>{first}{again}</testsuite>") == Outcome(
        passed=1, second_try=("test_a",)
    )


def test_a_step_that_passed_is_kept_and_one_that_failed_runs_again(tmp_path: Path) -> None:
    kept = KeptResults(tmp_path)
    passed = _result(outcome=Outcome(passed=2, second_try=("test_a",)))
    passed = replace(passed, outcome=passed.outcome + Outcome(skipped={"why": 1}))
    failed = _result("orca", Outcome(failed=("test_b",)))
    kept.keep(passed)
    kept.keep(failed)
    assert kept.results() == [failed, passed]
    assert kept.has_passed("Envoy 1.36.4", "xds")
    assert not kept.has_passed("Envoy 1.36.4", "orca")
    assert not kept.has_passed("Envoy 1.40.0", "xds")


def test_facts_are_kept_by_version(tmp_path: Path) -> None:
    KeptResults(tmp_path).keep_facts("1.36.4", {"drained": "51"})
    assert KeptResults(tmp_path).facts() == {"1.36.4": {"drained": "51"}}


def test_the_page_has_a_row_for_each_version_and_a_column_for_each_envoy() -> None:
    results = [
        _result(outcome=Outcome(passed=7, failed=("test_b",), second_try=("test_d",)), steps=3),
        _result("orca", Outcome(passed=2, skipped={"No stream.": 3}), steps=3),
    ]
    facts = {"1.36.4": {"drained": "51"}, "1.40.0": {"drained": "0"}}
    text = versions_page.text("Linux", PARTS, results, facts)
    assert text.startswith("Run on Linux.\n\nNot run: nginx.\n")
    row = "| Envoy 1.36.4 | xDS, ORCA (2 of 3 steps) | 9 | 3 | `test_b` | 2026-11-28, `abcdef12` |"
    assert row in text
    assert "Skipped:\n\n- No stream: 3 on Envoy 1.36.4\n" in text
    assert "Passed at the second try:\n\n- Envoy 1.36.4: `test_d`\n" in text
    assert "| Envoy | 1.36.4 | 1.40.0 |\n| --- | --- | --- |\n| drained | 51 | 0 |" in text
