"""The demo's table and findings, to the character."""

import pytest
from steelyard_loadtest.demo.aggregate import Figures, Third
from steelyard_loadtest.demo.table import finding, milliseconds, percent, table

SERVERS = ("server-1", "server-2")


def third(name: str, p99_ms: float | None, share: float | None, failures: int = 0) -> Third:
    rest = None if share is None else 1 - share
    return Third(
        name=name,
        figures=Figures(
            from_s=0,
            to_s=20,
            requests_per_s=300.4,
            requests=6008,
            failures=failures,
            p50_ms=3.21,
            p99_ms=p99_ms,
            shares={"server-1": share, "server-2": rest},
        ),
    )


ROWS = [third("before", 20.4, 0.25), third("burning", 1234.5, 0.051, failures=12), third("after", None, None)]


def test_the_table_has_a_line_a_third_and_names_each_phase_once() -> None:
    assert table({"Steelyard": ROWS, "Equal": ROWS[:1]}, SERVERS).splitlines() == [
        "                    requests/s  failed  p50 ms  p99 ms  server-1  server-2",
        "Steelyard  before          300       0     3.2      20      25 %      75 %",
        "           burning         300      12     3.2   1,234       5 %      95 %",
        "           after           300       0     3.2       –         –         –",
        "Equal      before          300       0     3.2      20      25 %      75 %",
    ]


def test_a_table_without_phases_is_its_head() -> None:
    assert table({}, SERVERS) == "    requests/s  failed  p50 ms  p99 ms  server-1  server-2"


def test_the_finding_tells_the_burned_server_s_share_and_the_tail() -> None:
    assert finding(ROWS, "server-1") == "server-1: 25 % → 5 % of requests, p99 20 → 1,234 ms"


def test_a_phase_that_was_interrupted_before_the_burn_says_so() -> None:
    assert finding(ROWS[:1], "server-1") == finding([], "server-1") == "interrupted before the burn"


@pytest.mark.parametrize(("part", "text"), [(None, "–"), (0.0, "0 %"), (0.125, "12 %"), (1.0, "100 %")])
def test_a_part_is_written_as_whole_percent(part: float | None, text: str) -> None:
    assert percent(part) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.04, "0.0"), (9.94, "9.9"), (10.0, "10"), (12345.6, "12,346")]
)
def test_milliseconds_have_the_digits_that_mean_something(value: float | None, text: str) -> None:
    assert milliseconds(value) == text
