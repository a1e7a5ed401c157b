"""wrk's words, as they really are."""

import pytest
from steelyard_loadtest.dataplane.contenders import COST
from steelyard_loadtest.dataplane.medians import CORES, CPU, RESIDENT, answered, metrics
from steelyard_loadtest.generators.tally import RESET
from steelyard_loadtest.generators.wrk import STATUS, parse_wrk
from steelyard_loadtest.machine.errors import UnreadableError
from steelyard_loadtest.measurements.trials import Measured, Outcome, Quantile, Trial

WRK = """Running 2s test @ http://127.0.0.1:20001/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     5.89ms    3.01ms  41.20ms   91.03%
    Req/Sec    11.63k     1.02k   13.49k    70.00%
  23204 requests in 2.00s, 3.70MB read
Requests/sec:  11600.11
Transfer/sec:      1.85MB
figures requests=23204 duration_us=2000324 status=2 timeout=0 connect=0 broken=1
latency mean_us=5890.0 min_us=210 max_us=41200
quantile 0.50000 5230
quantile 0.99000 14280
quantile 0.99900 30115
"""


def measured(outcome: Outcome, *, cpu_s: float | None = None, resident_bytes: int | None = None) -> Measured:
    trial = Trial(scenario=COST, algorithm="vnswrr", level=3, repeat=1)
    return Measured(
        trial=trial,
        generator="wrk",
        outcome=outcome,
        balancer_cpu_s=cpu_s,
        balancer_resident_bytes=resident_bytes,
    )


def parse_load(said: str) -> Outcome:
    return answered(parse_wrk(said, connections=64, cpu_s=0.0))


def load(requests: int = 1000, seconds: float = 2.0) -> Outcome:
    return Outcome(
        seconds=seconds,
        requests=requests,
        failures=0,
        kinds={},
        mean_ms=1,
        min_ms=1,
        max_ms=4,
        quantiles=(Quantile(part=0.5, ms=1), Quantile(part=0.99, ms=2), Quantile(part=0.999, ms=3)),
        concurrency=1,
    )


def test_wrk_s_figures_are_read_from_the_line_of_its_script() -> None:
    entry = measured(parse_load(WRK))
    expected = {
        "requests": 23204,
        "requests_per_s": 23204 / 2.000324,
        "p50_ms": 5.23,
        "p99_ms": 14.28,
        "p999_ms": 30.115,
        "max_ms": 41.2,
        "failures": 3,
    }
    known = metrics(entry)
    assert {name: known[name] for name in expected} == pytest.approx(expected)
    assert (entry.outcome.seconds, entry.outcome.kinds) == (2.000324, {STATUS: 2, RESET: 1})


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("", "it told no figures: it said nothing"),
        ("unable to connect to 127.0.0.1:1 Connection refused", "unable to connect to 127.0.0.1:1"),
        ("figures requests=1 duration_us=5", "it told no figures: figures requests=1 duration_us=5"),
        (WRK.replace("requests=23204", "requests=0"), "wrk got no answer at all"),
        (WRK.replace("duration_us=2000324", "duration_us=0"), "it measured no time"),
    ],
)
def test_output_without_figures_says_what_wrk_said(output: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        parse_load(output)


def test_cpu_per_request_is_the_proxy_s_time_over_wrk_s_requests() -> None:
    known = metrics(measured(load(), cpu_s=0.025, resident_bytes=17408 * 1024))
    assert known[CPU] == 25
    assert known[CORES] == 0.0125
    assert known[RESIDENT] == 17408 * 1024


def test_without_a_proxy_there_is_no_cost() -> None:
    known = metrics(measured(load()))
    assert (known.get(CPU), known.get(CORES)) == (None, None)
