"""The demo's table, findings and progress, to the character."""

import io
from dataclasses import replace

import pytest
from steelyard_loadtest.demo.phase_figures import Figures, describe, finding, table
from steelyard_loadtest.demo.records import Observed, Plan
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.wording import milliseconds, percent

SERVERS = ("server-1", "server-2")
PLAN = Plan(
    name="steelyard",
    title="Steelyard",
    path="/",
    static=False,
    seconds=60,
    rate=300,
    users=150,
    burn_url="http://127.0.0.1:8101",
    servers=SERVERS,
)
EQUAL = replace(PLAN, name="equal", title="Equal static weights", path="/equal/", static=True)


def observed(*shares: float | None) -> list[Observed]:
    return [
        Observed(t_s=number // 2, server=SERVERS[number % 2], weight_share=share, cpu_utilization=None)
        for number, share in enumerate(shares)
    ]


def third(p99_ms: float | None, share: float | None, failures: int = 0) -> Figures:
    rest = None if share is None else 1 - share
    return Figures(
        from_s=0,
        to_s=20,
        requests_per_s=300.4,
        requests=6008,
        failures=failures,
        p50_ms=3.21,
        p99_ms=p99_ms,
        shares={"server-1": share, "server-2": rest},
    )


BEFORE = {"before": third(20.4, 0.25)}
ROWS = BEFORE | {"burning": third(1234.5, 0.051, failures=12), "after": third(None, None)}


def test_the_table_has_a_line_a_third_and_names_each_phase_once() -> None:
    assert table({"Steelyard": ROWS, "Equal": BEFORE}, SERVERS).splitlines() == [
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
    assert finding(BEFORE, "server-1") == finding({}, "server-1") == "interrupted before the burn"


@pytest.mark.parametrize(("part", "text"), [(None, "–"), (0.0, "0 %"), (0.125, "12 %"), (1.0, "100 %")])
def test_a_part_is_written_as_whole_percent(part: float | None, text: str) -> None:
    assert percent(part) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.04, "0.0"), (9.94, "9.9"), (10.0, "10"), (12345.6, "12,346")]
)
def test_milliseconds_have_the_digits_that_mean_something(value: float | None, text: str) -> None:
    assert milliseconds(value) == text


def test_the_line_tells_the_time_left_in_both_phases_and_the_newest_weights() -> None:
    line = describe(PLAN, 25.2, burning=True, observed=observed(0.5, 0.5, 0.1, 0.9), phases_left=1)
    assert line == "Steelyard: 25 of 60 s, 1:43 left · burning CPU · weights server-1 10 %, server-2 90 %"


def test_an_unknown_weight_is_shown_as_such_and_no_weights_are_not_shown() -> None:
    line = describe(PLAN, 0, burning=False, observed=observed(None, 1.0), phases_left=0)
    assert line == "Steelyard: 0 of 60 s, 1:00 left · weights server-1 –, server-2 100 %"
    assert describe(PLAN, 0, burning=False, observed=[], phases_left=0) == "Steelyard: 0 of 60 s, 1:00 left"


def test_the_static_phase_shows_no_weights_because_its_load_follows_none() -> None:
    line = describe(EQUAL, 59.6, burning=False, observed=observed(0.5, 0.5), phases_left=0)
    assert line == "Equal static weights: 60 of 60 s, 0:00 left"


def test_a_file_gets_a_line_every_ten_seconds_of_each_phase() -> None:
    stream = io.StringIO()
    for plan in (PLAN, EQUAL):
        tenths = 0
        with Progress(stream, clock=lambda: tenths / 10) as progress:  # noqa: B023 - called at once
            for tenths in range(250):
                progress.show(describe(plan, tenths / 10, burning=False, observed=[], phases_left=0))
    assert [line.partition(" s,")[0] for line in stream.getvalue().splitlines()] == [
        *(f"Steelyard: {second} of 60" for second in (0, 10, 20)),
        *(f"Equal static weights: {second} of 60" for second in (0, 10, 20)),
    ]
