"""Repeats put together, and the target judged on them."""

import math
from dataclasses import replace

import pytest
from steelyard_loadtest.figures.trial_figures import TrialFigures, figures, summarize
from steelyard_loadtest.figures.verdict import Verdict, is_online, verdicts
from steelyard_loadtest.measurements.trials import Measured, Outcome, Quantile, Trial
from steelyard_loadtest.reporting.statistics import spread
from steelyard_loadtest.scenario.algorithms import DEFAULT


def trial(algorithm: str, p99_ms: float | None, repeat: int = 1, failures: int = 0) -> TrialFigures:
    points = () if p99_ms is None else (Quantile(part=0.99, ms=p99_ms),)
    outcome = Outcome(
        seconds=10,
        requests=10_000,
        failures=failures,
        kinds={},
        mean_ms=1,
        min_ms=1,
        max_ms=1,
        quantiles=points,
        concurrency=1,
    )
    return figures(
        Measured(
            trial=Trial(scenario="s", algorithm=algorithm, level=10, repeat=repeat),
            generator="locust",
            outcome=outcome,
            observed=(),
            balancer_cpu_s=None,
        ),
        [],
    )


def judged(*trials: TrialFigures) -> Verdict:
    (verdict,) = verdicts(summarize(trials))
    return verdict


def test_sigma_is_the_locust_studys() -> None:
    figure = spread([220, 220, 230])
    assert figure.sigma == pytest.approx(5.77, abs=0.005)  # its table 4, 100 users
    assert figure.mean == pytest.approx(223.33, abs=0.01)
    assert (figure.median, figure.lowest, figure.highest) == (220, 220, 230)


def test_one_repeat_or_one_without_an_end_has_no_sigma() -> None:
    assert spread([3]).sigma is None
    assert spread([3, math.inf]).sigma is None


def test_repeats_are_summarized_and_what_none_knows_is_absent() -> None:
    (summary,) = summarize([trial("nginx-rr", 4, 1), trial("nginx-rr", None, 2), trial("nginx-rr", 8, 3)])
    assert len(summary.trials) == 3
    assert summary.metrics["p99_ms"].median == 6
    assert "settle_s" not in summary.metrics


def test_an_online_peer_is_a_balancer_not_ours_and_not_informed() -> None:
    assert [name for name in ("nginx-rr", "envoy-cswrr", "haproxy-leastconn-agent") if is_online(name)] == [
        "nginx-rr",
        "envoy-cswrr",
        "haproxy-leastconn-agent",
    ]
    assert not any(is_online(name) for name in ("direct", "nginx-wrr", "nginx-wrr-reversed", DEFAULT))


def test_the_target_is_met_at_or_below_the_best_online_peer() -> None:
    verdict = judged(
        trial(DEFAULT, 10), trial("nginx-rr", 30), trial("nginx-least_conn", 10), trial("nginx-wrr", 5)
    )
    assert (verdict.standing, verdict.online and verdict.online.algorithm) == ("met", "nginx-least_conn")
    assert verdict.online is not None
    assert verdict.online.ratio == 1
    assert verdict.informed is not None
    assert (verdict.informed.algorithm, verdict.informed.ratio) == ("nginx-wrr", 2)


def test_it_is_missed_above_also_within_the_noise() -> None:
    ours = [trial(DEFAULT, p99_ms, repeat) for repeat, p99_ms in enumerate((9, 11, 12))]
    peer = [trial("nginx-rr", p99_ms, repeat) for repeat, p99_ms in enumerate((8, 10, 10.5))]
    verdict = judged(*ours, *peer)
    assert verdict.standing == "missed"
    assert verdict.online is not None
    assert verdict.online.ratio == pytest.approx(1.1)
    assert verdict.online.within_noise


def test_one_repeat_knows_no_noise() -> None:
    verdict = judged(trial(DEFAULT, 10), trial("nginx-rr", 10))
    assert verdict.online is not None
    assert not verdict.online.within_noise


def test_a_peer_that_drops_requests_is_none() -> None:
    verdict = judged(
        trial(DEFAULT, 10), trial("nginx-rr", 1, failures=11), trial("nginx-hash", 20, failures=10)
    )
    assert verdict.online is not None
    assert verdict.online.algorithm == "nginx-hash"


def test_ours_fails_when_it_drops_requests_however_quick() -> None:
    assert judged(trial(DEFAULT, 1, failures=500), trial("nginx-rr", 100)).standing == "failed"


def test_without_a_peer_or_without_ours_nothing_is_met() -> None:
    assert judged(trial(DEFAULT, 1), trial("nginx-wrr", 100), trial("direct", 100)).standing == "no peer"
    verdict = judged(trial("nginx-rr", 100))
    assert verdict.standing == "not measured"
    assert verdict.online is not None
    assert verdict.online.ratio is None
    assert judged(replace(trial(DEFAULT, None)), trial("nginx-rr", 1)).standing == "not measured"
