"""wrk's and the kernel's words, as they really are."""

import pytest
from steelyard_loadtest.dataplane.records import (
    Load,
    Measured,
    parse_load,
)
from steelyard_loadtest.machine.errors import UnreadableError
from steelyard_loadtest.machine.procfs import parse_resident, parse_schedstats

WRK = """Running 2s test @ http://127.0.0.1:20001/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     5.89ms    3.01ms  41.20ms   91.03%
    Req/Sec    11.63k     1.02k   13.49k    70.00%
  23204 requests in 2.00s, 3.70MB read
Requests/sec:  11600.11
Transfer/sec:      1.85MB
figures requests=23204 duration_us=2000324 p50_us=5230 p99_us=14280 p999_us=30115 max_us=41200 \
non_2xx=2 socket_errors=1
"""


def load(requests: int = 1000, seconds: float = 2.0) -> Load:
    return Load(
        requests=requests,
        seconds=seconds,
        p50_ms=1,
        p99_ms=2,
        p999_ms=3,
        max_ms=4,
        non_2xx=0,
        socket_errors=0,
    )


def test_wrk_s_figures_are_read_from_the_line_of_its_script() -> None:
    read = parse_load(WRK)
    assert read == Load(
        requests=23204,
        seconds=2.000324,
        p50_ms=5.23,
        p99_ms=14.28,
        p999_ms=30.115,
        max_ms=41.2,
        non_2xx=2,
        socket_errors=1,
    )
    assert read.failed == 3
    assert read.requests_per_s == 23204 / 2.000324


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("", "wrk printed no figures but:\n"),
        ("unable to connect to 127.0.0.1:1 Connection refused", "unable to connect to 127.0.0.1:1"),
        ("figures requests=1 duration_us=5", "wrk printed no p50_us"),
        (WRK.replace("requests=23204", "requests=0"), "wrk got no answer at all"),
        (WRK.replace("duration_us=2000324", "duration_us=0"), "wrk got no answer at all"),
    ],
)
def test_output_without_figures_says_what_wrk_said(output: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        parse_load(output)


def test_the_cpu_time_is_the_sum_over_threads() -> None:
    assert parse_schedstats(["1500000000 77 3\n", "250000000 0 1\n"]) == 1.75


def test_resident_memory_is_read_from_the_status() -> None:
    assert parse_resident("Name:\tnginx\nVmHWM:\t   18000 kB\nVmRSS:\t   17408 kB\n") == 17408 * 1024
    with pytest.raises(UnreadableError, match="VmRSS"):
        parse_resident("Name:\tzombie\n")


def test_cpu_per_request_is_the_proxy_s_time_over_wrk_s_requests() -> None:
    entry = Measured(
        contender="vnswrr", peers=3, round=1, load=load(), cpu_s=0.025, resident_bytes=17408 * 1024
    )
    assert entry.cpu_us_per_request == 25
    assert entry.cpu_utilization == 0.0125


def test_without_a_proxy_there_is_no_cost() -> None:
    entry = Measured(contender="direct", peers=3, round=1, load=load(), cpu_s=None, resident_bytes=None)
    assert (entry.cpu_us_per_request, entry.cpu_utilization) == (None, None)
