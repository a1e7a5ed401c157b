"""Repeats put together, and the target judged on them."""

import math
from dataclasses import replace

import pytest
from steelyard_loadtest.compare.algorithms import DEFAULT
from steelyard_loadtest.compare.figures.cell_figures import CellFigures, figures
from steelyard_loadtest.compare.figures.summary import summarize
from steelyard_loadtest.compare.figures.verdict import Verdict, is_online, verdicts
from steelyard_loadtest.compare.records import (
    Cell,
    Measured,
    Outcome,
    Quantile,
)
from steelyard_loadtest.reporting.statistics import spread


def cell(algorithm: str, p99_ms: float | None, repeat: int = 1, failures: int = 0) -> CellFigures:
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
            cell=Cell(scenario="s", algorithm=algorithm, level=10, repeat=repeat),
            generator="locust",
            outcome=outcome,
            observed=(),
            balancer_cpu_s=None,
        ),
        [],
    )


def judged(*cells: CellFigures) -> Verdict:
    (verdict,) = verdicts(summarize(cells))
    return verdict


def test_sigma_is_the_locust_studys() -> None:
    found = spread([220, 220, 230])
    assert found.sigma == pytest.approx(5.77, abs=0.005)  # its table 4, 100 users
    assert found.mean == pytest.approx(223.33, abs=0.01)
    assert (found.median, found.lowest, found.highest) == (220, 220, 230)


def test_one_repeat_or_one_without_an_end_has_no_sigma() -> None:
    assert spread([3]).sigma is None
    assert spread([3, math.inf]).sigma is None


def test_repeats_are_summarized_and_what_none_knows_is_absent() -> None:
    (found,) = summarize([cell("nginx-rr", 4, 1), cell("nginx-rr", None, 2), cell("nginx-rr", 8, 3)])
    assert len(found.cells) == 3
    assert found.metrics["p99_ms"].median == 6
    assert "settle_s" not in found.metrics


def test_an_online_peer_is_a_balancer_not_ours_and_told_nothing() -> None:
    assert [name for name in ("nginx-rr", "envoy-cswrr", "haproxy-leastconn-agent") if is_online(name)] == [
        "nginx-rr",
        "envoy-cswrr",
        "haproxy-leastconn-agent",
    ]
    assert not any(is_online(name) for name in ("direct", "nginx-wrr", "nginx-wrr-reversed", DEFAULT))


def test_the_target_is_met_at_or_below_the_best_online_peer() -> None:
    found = judged(
        cell(DEFAULT, 10), cell("nginx-rr", 30), cell("nginx-least_conn", 10), cell("nginx-wrr", 5)
    )
    assert (found.standing, found.online and found.online.algorithm) == ("met", "nginx-least_conn")
    assert found.online is not None
    assert found.online.ratio == 1
    assert found.told is not None
    assert (found.told.algorithm, found.told.ratio) == ("nginx-wrr", 2)


def test_it_is_missed_above_also_within_the_noise() -> None:
    ours = [cell(DEFAULT, p99_ms, repeat) for repeat, p99_ms in enumerate((9, 11, 12))]
    peer = [cell("nginx-rr", p99_ms, repeat) for repeat, p99_ms in enumerate((8, 10, 10.5))]
    found = judged(*ours, *peer)
    assert found.standing == "missed"
    assert found.online is not None
    assert found.online.ratio == pytest.approx(1.1)
    assert found.online.within_noise


def test_one_repeat_knows_no_noise() -> None:
    found = judged(cell(DEFAULT, 10), cell("nginx-rr", 10))
    assert found.online is not None
    assert not found.online.within_noise


def test_a_peer_that_drops_requests_is_none() -> None:
    found = judged(cell(DEFAULT, 10), cell("nginx-rr", 1, failures=11), cell("nginx-hash", 20, failures=10))
    assert found.online is not None
    assert found.online.algorithm == "nginx-hash"


def test_ours_fails_when_it_drops_requests_however_quick() -> None:
    assert judged(cell(DEFAULT, 1, failures=500), cell("nginx-rr", 100)).standing == "failed"


def test_without_a_peer_or_without_ours_nothing_is_met() -> None:
    assert judged(cell(DEFAULT, 1), cell("nginx-wrr", 100), cell("direct", 100)).standing == "no peer"
    found = judged(cell("nginx-rr", 100))
    assert found.standing == "not measured"
    assert found.online is not None
    assert found.online.ratio is None
    assert judged(replace(cell(DEFAULT, None)), cell("nginx-rr", 1)).standing == "not measured"
