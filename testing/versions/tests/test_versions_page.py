"""The outcomes of a run, and the page that it writes."""

from testing.versions import suites, versions_page
from testing.versions.suites import Outcome

REPORT = """<testsuites><testsuite>
<testcase name="test_a"/><testcase name="test_b[1]"><failure>no</failure></testcase>
<testcase name="test_c"><skipped/></testcase><testcase name="test_d"><error>no</error></testcase>
</testsuite></testsuites>"""


def test_an_outcome_counts_tests_and_names_those_that_failed() -> None:
    seen = suites.outcome(REPORT)
    assert seen == Outcome(passed=1, skipped=1, failed=("test_b[1]", "test_d"))
    assert (seen + Outcome(passed=2)).passed == 3


def test_a_test_that_ran_again_counts_once_as_it_ended() -> None:
    first, again = '<testcase name="test_a"><failure>no</failure></testcase>', '<testcase name="test_a"/>'
    assert suites.outcome(f"<testsuite>{first}{again}</testsuite>") == Outcome(passed=1)


def test_the_page_has_a_row_for_each_version_and_a_column_for_each_envoy() -> None:
    rows = [("Envoy 1.36.4", "xDS, ORCA", Outcome(passed=9, failed=("test_b",)))]
    facts = {"1.36.4": {"drained": "51"}, "1.40.0": {"drained": "0"}}
    text = versions_page.text("2026-11-28", "Linux", rows, facts, ["nginx"])
    assert "Run on 2026-11-28: Linux.\n\nNot run: nginx.\n" in text
    assert "| Envoy 1.36.4 | xDS, ORCA | 9 | 0 | `test_b` |" in text
    assert "| Envoy | 1.36.4 | 1.40.0 |\n| --- | --- | --- |\n| drained | 51 | 0 |" in text
