"""The output of generators becomes figures: schedules, quantiles, records, and each program's own output."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.generators import tally as failures
from steelyard_loadtest.generators import why_missing
from steelyard_loadtest.generators.job import Task, parse_task
from steelyard_loadtest.generators.schedule import Pacer
from steelyard_loadtest.generators.tally import (
    Request,
    line_of,
    read_requests,
    tally,
)
from steelyard_loadtest.generators.wrk import parse_wrk, script
from steelyard_loadtest.machine.errors import UnreadableError
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.measurements.trials import PERCENTILES


def test_requests_are_due_at_equal_distances_whatever_happens() -> None:
    pacer = Pacer(rate_per_s=4, seconds=1.0)
    assert pacer.requests == 4
    assert [pacer.due_s(number) for number in range(4)] == [0, 0.25, 0.5, 0.75]
    assert [pacer.due_by(at_s) for at_s in (-0.1, 0, 0.24, 0.25, 0.6, 1.0, 99.0)] == [0, 1, 1, 2, 3, 4, 4]


def test_after_a_stall_all_that_was_missed_is_due() -> None:
    assert Pacer(rate_per_s=400, seconds=60).due_by(10.0) == 4001


@given(st.floats(0.1, 20_000), st.floats(0.01, 300), st.integers(0, 100_000))
def test_a_request_is_due_from_its_due_time_on(rate: float, seconds: float, number: int) -> None:
    pacer = Pacer(rate_per_s=rate, seconds=seconds)
    number = min(number, pacer.requests - 1)
    assert pacer.due_s(number) < seconds
    assert pacer.due_s(pacer.requests) >= seconds
    # Else a timer set for this moment would find nothing to do, and be set again.
    assert pacer.due_by(pacer.due_s(number)) == number + 1


def request(due_s: float, latency_ms: float, failure: str = "") -> Request:
    return Request(due_s=due_s, latency_ms=latency_ms, failure=failure)


def test_a_request_counts_by_when_it_was_due_however_late_its_answer() -> None:
    requests = [request(9.9, 500), request(10.0, 20), request(11.9, 4000), request(12.0, 7)]
    outcome = tally(requests, began_s=10.0, seconds=2.0, cpu_s=0.5)
    assert (outcome.requests, outcome.failures) == (2, 0)
    assert (outcome.min_ms, outcome.mean_ms, outcome.max_ms) == (20, 2010, 4000)
    assert outcome.generator_cpu_utilization == 0.25


def test_a_load_is_cut_into_phases_by_when_requests_were_due() -> None:
    requests = [request(10.5, 20), request(11.5, 300), request(11.6, 1, "502"), request(12.5, 40)]
    outcome = tally(requests, began_s=10.0, seconds=3.0, cpu_s=0.5, cuts_s=[0.0, 1.0, 2.0, 3.0, 9.0])
    assert [(phase.seconds, phase.requests, phase.failures, phase.max_ms) for phase in outcome.phases] == [
        (1, 1, 0, 20),
        (1, 2, 1, 300),
        (1, 1, 0, 40),
    ]
    assert tally(requests, began_s=10.0, seconds=3.0, cpu_s=0.5, cuts_s=[0.0]).phases == ()


def test_each_second_has_the_p99_of_those_of_its_requests_that_succeeded() -> None:
    requests = [request(10.0, 20), request(10.9, 300), request(11.5, 1, "502"), request(12.2, 40)]
    outcome = tally(requests, began_s=10.0, seconds=2.5, cpu_s=0.5)
    assert outcome.p99_by_second_ms == (300, None, 40)


def test_concurrency_is_the_time_in_flight_within_the_counted_part() -> None:
    requests = [request(9.0, 1500), request(10.0, 1000), request(11.5, 9000, "timeout"), request(13, 5)]
    outcome = tally(requests, began_s=10.0, seconds=2.0, cpu_s=0.0)
    assert outcome.concurrency == pytest.approx((0.5 + 1.0 + 0.5) / 2.0)


def test_failures_are_counted_by_kind_and_lend_no_latency() -> None:
    requests = [request(0, 10), request(0, 1, "502"), request(1, 1, "502"), request(1, 30_000, "timeout")]
    outcome = tally(requests, began_s=0.0, seconds=2.0, cpu_s=0.0)
    assert (outcome.requests, outcome.failures, outcome.kinds) == (4, 3, {"502": 2, "timeout": 1})
    assert (outcome.mean_ms, outcome.max_ms) == (10, 10)


def test_a_load_of_which_nothing_succeeds_has_no_latency() -> None:
    outcome = tally([request(0, 1, "refused")], began_s=0.0, seconds=1.0, cpu_s=0.0)
    assert (outcome.mean_ms, outcome.min_ms, outcome.max_ms, outcome.quantiles) == (None, None, None, ())


def test_a_written_request_is_read_as_it_was() -> None:
    requests = [request(1234.567890123, 0.25), request(0.1, 3.0, "other: a, comma")]
    assert read_requests(map(line_of, requests)) == requests


@pytest.mark.parametrize("line", ["", "1.0,2.0", "soon,2.0,"])
def test_half_a_line_is_not_read(line: str) -> None:
    with pytest.raises(UnreadableError, match="line is not as it was written"):
        read_requests([line])


class HTTPConnectionClosed(Exception):
    """Named as geventhttpclient's."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("timed out"), "timeout"),
        (ConnectionRefusedError(111, "refused"), "refused"),
        (ConnectionResetError(104, "reset"), "reset"),
        (BrokenPipeError(32, "broken"), "reset"),
        (HTTPConnectionClosed("closed"), "reset"),
        (ValueError("a\nlong " + "story " * 50), "other: ValueError a long story story"),
    ],
)
def test_an_error_has_a_kind_in_one_line(error: Exception, kind: str) -> None:
    assert failures.of_error(error).startswith(kind)
    assert len(failures.of_error(error)) <= len("other: ") + failures.LONGEST_KIND


def test_a_status_from_400_on_is_a_failure() -> None:
    assert [failures.of_status(status) for status in (200, 304, 399, 400, 502)] == ["", "", "", "400", "502"]


def test_a_task_survives_the_command_line() -> None:
    task = Task(
        url="http://127.0.0.1:8080/?n=20",
        level=0.1,
        seconds=60.0,
        warm_up_s=5.0,
        timeout_s=30.0,
        finish_s=15.0,
        folder=Path("a folder"),
    )
    assert parse_task(task.arguments()) == task


# wrk 4.1.0 with SCRIPT, against the same nginx; most quantiles left out.
WRK_SAID = """\
Running 1s test @ http://127.0.0.1:21999/r
  1 threads and 4 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   150.75us  349.05us   4.17ms   93.83%
    Req/Sec    50.57k    10.67k   60.84k    90.91%
  55201 requests in 1.10s, 8.76MB read
  Non-2xx or 3xx responses: 5528
Requests/sec:  50180.45
Transfer/sec:      7.96MB
figures requests=55201 duration_us=1100050 status=5528 timeout=0 connect=0 broken=7
latency mean_us=150.7 min_us=21 max_us=4173
quantile 0.01000 28
quantile 0.50000 57
quantile 0.99900 3425
"""


def test_wrk_s_figures_are_read() -> None:
    outcome = parse_wrk(WRK_SAID, connections=4, cpu_s=0.55)
    assert (outcome.seconds, outcome.requests, outcome.failures) == (1.10005, 55208, 5535)
    assert outcome.kinds == {"status 400 and above": 5528, "reset": 7}
    assert [(quantile.part, quantile.ms) for quantile in outcome.quantiles] == [
        (0.01, 0.028),
        (0.5, 0.057),
        (0.999, 3.425),
    ]
    assert outcome.mean_ms == pytest.approx(0.1507)
    assert outcome.concurrency == 4.0


def test_wrk_without_an_answer_has_no_latency() -> None:
    text = "figures requests=0 duration_us=1000000 status=0 timeout=0 connect=3 broken=0\n"
    outcome = parse_wrk(text, connections=4, cpu_s=0.0)
    assert (outcome.requests, outcome.kinds) == (3, {"refused": 3})
    assert (outcome.mean_ms, outcome.quantiles, outcome.concurrency) == (None, (), 0.0)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", r"its output has no figures: \(empty\)"),
        ("unable to connect", "its output has no figures: unable to connect"),
        ("figures requests=1 duration_us=5", "its output has no figures: figures requests=1 duration_us=5"),
        (WRK_SAID.replace("duration_us=1100050", "duration_us=0"), "it measured no time"),
    ],
)
def test_wrk_without_its_figures_is_unreadable(said: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        parse_wrk(said, connections=4, cpu_s=0.0)


def test_wrk_is_asked_for_every_percentile() -> None:
    text = script()
    asked = text[text.index("{") + 1 : text.index("}")].split(",")
    assert tuple(map(float, asked)) == tuple(PERCENTILES.values())


def test_what_is_missing_is_named_with_its_package() -> None:
    nothing = Programs(
        wrk=None, nginx="nginx", backend_nginx="nginx", memcached=None,
        modules={}, versions={},
    )  # fmt: skip
    assert why_missing("wrk", nothing) == "wrk is not installed (apt-get install wrk)"
    assert why_missing("locust", nothing) is None
    assert why_missing("open", nothing) is None
