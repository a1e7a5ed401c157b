"""The default law step by step; its dynamics are in test_law_dynamics, its inputs in test_law_inputs."""

from typing import Any

import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_controller.snapshot import Floats

from .snapshots import figures, golden, golden_snapshot, snapshot, steps

IDS = ("a", "b", "c")
STEELYARD = laws.create("steelyard")


def close(value: Floats, expected: list[float | None], number: int) -> None:
    # The goldens are printed to nine places after the point, and from the fourth case on to nine digits.
    wanted = figures(expected, len(value))
    np.testing.assert_allclose(value, wanted, rtol=2.1e-9, atol=1e-9, err_msg=f"tick {number}")


@pytest.mark.parametrize("case", golden("law"), ids=lambda case: case["name"])
def test_golden(case: dict[str, Any]) -> None:
    memory = STEELYARD.start()
    for number, tick in enumerate(case["ticks"]):
        memory, decision = STEELYARD.step(memory, golden_snapshot(case, number))
        close(decision.entropy_weights, tick["entropy_weights"], number)
        close(decision.score, tick["score"], number)
        close(decision.capacity_estimate, tick["capacity_estimate"], number)
        close(decision.weights, tick["weights"], number)
        assert decision.alert == tick["alert"]
        assert (decision.published * decision.divisor).tolist() == tick["quantized"]


def test_a_golden_case_goes_on_the_same_through_an_encoded_memory() -> None:
    case = golden("law")[1]
    memory = STEELYARD.start()
    for number, tick in enumerate(case["ticks"]):
        restored = laws.decode_memory(STEELYARD, laws.encode_memory("steelyard", memory))
        assert restored is not None
        memory, decision = STEELYARD.step(restored, golden_snapshot(case, number))
        close(decision.weights, tick["weights"], number)


def test_the_weight_is_what_a_peer_does_per_busy_second() -> None:
    _, decision = steps(STEELYARD, [snapshot(cpu=(0.8, 0.4, 0.4), completed=100)] * 60)
    a, b, c = decision.weights
    assert b == pytest.approx(2 * a, rel=0.01)
    assert c == b
    assert decision.capacity_estimate[:2] == pytest.approx([125, 250], rel=0.01)


def test_the_busiest_indicator_counts_not_the_mean() -> None:
    rows = [[0.1, 0.0, 0.8, 0.1], [0.4, 0.0, 0.1, 0.1], [0.4, 0.0, 0.1, 0.1]]
    _, decision = steps(STEELYARD, [snapshot(utilization=rows, completed=100)] * 60)
    assert decision.weights[1] == pytest.approx(2 * decision.weights[0], rel=0.01)


def test_memory_below_the_knee_is_not_load() -> None:
    rows = [[0.4, 0.0, 0.0, 0.79], [0.4, 0.0, 0.0, 0.1], [0.4, 0.0, 0.0, 0.1]]
    _, decision = steps(STEELYARD, [snapshot(utilization=rows)] * 60)
    assert np.ptp(decision.weights) < 1e-9


def test_an_idle_cluster_stands_on_its_baselines() -> None:
    _, decision = steps(STEELYARD, [snapshot(cpu=0, completed=0, in_flight=0, baseline=(1, 2, 3))] * 60)
    assert decision.weights == pytest.approx(decision.baseline, rel=1e-12)


def test_background_cpu_noise_on_an_idle_cluster_does_not_move_weights() -> None:
    idle = snapshot(cpu=(0.5, 0.05, 0.0), completed=0, in_flight=0, latency_s=None)
    _, decision = steps(STEELYARD, [idle] * 120)
    assert decision.weights == pytest.approx(decision.baseline, rel=1e-12)
    assert decision.columns["evidence_busy_s"][0] > 1


def test_background_cpu_noise_fades_into_the_baseline_once_the_requests_have_stopped() -> None:
    busy = snapshot(cpu=0.5, completed=100)
    noisy = snapshot(cpu=(0.3, 0.0, 0.0), completed=0, in_flight=0, latency_s=None)
    memory, _ = steps(STEELYARD, [busy] * 30)
    _, decision = steps(STEELYARD, [noisy] * 400, memory)
    assert decision.weights == pytest.approx(decision.baseline, rel=0.01)


def test_a_night_without_a_request_ends_on_the_baselines() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=(0.8, 0.4, 0.4))] * 60)
    # Eight hours: evidence that only ever faded would underflow after six.
    idle = snapshot(cpu=(0.3, 0.0, 0.0), completed=0, in_flight=0, latency_s=None, tick_s=60.0)
    for _minute in range(480):
        memory, decision = STEELYARD.step(memory, idle)
    assert decision.weights == pytest.approx(decision.baseline, rel=1e-9)


def test_nothing_is_learnt_from_an_idle_peer() -> None:
    _, decision = steps(STEELYARD, [snapshot(cpu=(0.001, 0.5, 0.5), completed=(1, 100, 100))] * 60)
    # 1000 requests per busy second, taken at its word, would be five times the others' 200.
    assert decision.weights[0] < 1.2 * decision.weights[1]


def test_a_backlog_is_drained() -> None:
    level = [snapshot(cpu=0.9)] * 30
    memory, before = steps(STEELYARD, level)
    _, after = steps(STEELYARD, [snapshot(cpu=0.9, in_flight=(100, 1, 1))], memory)
    # 0.9 s of work where the mean is 0.306 s, to be worked off within 3 s; the others get up to 10 % more.
    assert after.columns["drain"] == pytest.approx([0.802, 1.099, 1.099], rel=0.001)
    assert after.weights / before.weights == pytest.approx([0.802, 1.099, 1.099], rel=0.001)


def test_a_backlog_means_busy_whatever_the_sample_says() -> None:
    _, decision = steps(STEELYARD, [snapshot(cpu=0.2, in_flight=(500, 1, 1))] * 5)
    assert decision.columns["load"][0] == 1.0


def test_slowness_is_punished_where_a_peer_is_idle() -> None:
    _, decision = steps(STEELYARD, [snapshot(cpu=0.1, latency_s=(2.0, 0.01, 0.01))] * 30)
    assert decision.columns["slow"][0] < 0.1
    assert decision.columns["slow"][1:].tolist() == [1.0, 1.0]


def test_slowness_of_a_busy_peer_is_its_load_not_a_fault() -> None:
    _, decision = steps(STEELYARD, [snapshot(cpu=(1.0, 0.5, 0.5), latency_s=(0.08, 0.01, 0.01))] * 60)
    assert decision.columns["slow"][0] > 0.99


@pytest.mark.parametrize(("times", "kept"), [(5, 1.0), (10, 0.89), (100, 0.61)])
def test_one_slow_request_is_weak_evidence_and_gone_with_its_window(times: float, kept: float) -> None:
    idle = snapshot(ids="abcd", cpu=0.0, completed=0, in_flight=0, latency_s=None)
    latency_s = (0.01 * times, None, 0.01, 0.01)
    one = snapshot(ids="abcd", cpu=0.0, completed=(1, 0, 1, 1), in_flight=0, latency_s=latency_s)
    memory, before = steps(STEELYARD, [idle] * 60)
    memory, during = steps(STEELYARD, [one], memory)
    _, after = steps(STEELYARD, [idle], memory)
    # (kappa / times)^(1/6): one request beside the five of the prior; and gone with the next window.
    assert during.columns["slow"].tolist() == [pytest.approx(kept, abs=0.005), 1, 1, 1]
    assert after.columns["slow"].tolist() == [1, 1, 1, 1]
    assert after.weights == pytest.approx(before.weights, rel=1e-4)


def test_failures_are_punished_against_the_median() -> None:
    _, decision = steps(STEELYARD, [snapshot(completed=(50, 100, 100), failed=(50, 0, 0))] * 60)
    assert decision.columns["err"][0] == pytest.approx(0.5**3, rel=0.05)


def test_all_failing_alike_is_nobodys_fault() -> None:
    _, decision = steps(STEELYARD, [snapshot(failed=100)] * 60)
    assert decision.columns["err"].tolist() == [1.0] * 3
    assert decision.weights == pytest.approx(decision.baseline, rel=1e-9)


def test_the_floor_is_a_fiftieth_of_the_baseline() -> None:
    fast = snapshot(cpu=(0.01, 1.0, 1.0), completed=(10_000, 1, 1), in_flight=0)
    _, decision = steps(STEELYARD, [fast] * 60)
    # The idle peer's 3 times the baseline and the others' 0.02, scaled to sum to S.
    assert decision.weights == pytest.approx(np.array([3, 0.02, 0.02]) / 3.04 * 1000, rel=0.01)
    assert decision.columns["clamp_floor"].tolist() == [0.0, 1.0, 1.0]


def test_the_ceiling_is_55_times_the_baseline() -> None:
    wrong = snapshot(cpu=0.5, completed=(10_000, 10_000), ids="ab", baseline=(1, 1000))
    _, decision = steps(STEELYARD, [wrong] * 300)
    assert decision.columns["clamp_ceiling"].tolist() == [1.0, 0.0]
    # The other is at half of its baseline: equal speed would be 500 to 500.
    assert decision.weights[0] / decision.weights[1] == pytest.approx(np.exp(4.0) / 1000 / 0.5, rel=0.02)


def test_a_step_in_speed_is_found_at_once() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.5)] * 60)
    memory, decision = steps(STEELYARD, [snapshot(cpu=(1.0, 0.5, 0.5))], memory)
    assert decision.columns["restarted"].tolist() == [1.0, 0.0, 0.0]
    assert decision.capacity_estimate[0] == pytest.approx(105, rel=0.06)


def test_restarts_do_not_loop() -> None:
    memory, restarts = STEELYARD.start(), 0.0
    for tick in range(120):
        # A model that is wrong at every tick: each window contradicts the last.
        memory, decision = STEELYARD.step(memory, snapshot(cpu=(0.9 if tick % 2 else 0.2, 0.5, 0.5)))
        restarts = decision.columns["restarts"][0]
    assert restarts < 20


def test_alert_has_hysteresis() -> None:
    memory, first = steps(STEELYARD, [snapshot(cpu=(0.8, 0.3, 0.3))] * 20)
    memory, held = steps(STEELYARD, [snapshot(cpu=(0.7, 0.3, 0.3))] * 20, memory)
    memory, over = steps(STEELYARD, [snapshot(cpu=(0.6, 0.3, 0.3))] * 20, memory)
    _, again = steps(STEELYARD, [snapshot(cpu=(0.7, 0.3, 0.3))] * 20, memory)
    assert [first.alert, held.alert, over.alert, again.alert] == [True, True, False, False]


def test_s_is_at_least_1000_and_20_a_peer() -> None:
    for k, total in ((2, 1000), (80, 1600)):
        _, decision = steps(STEELYARD, [snapshot(ids=[f"p{j}" for j in range(k)])])
        assert decision.total == total
        assert decision.weights.sum() == pytest.approx(total)


def test_an_upstream_without_peers_has_no_weights() -> None:
    _, decision = steps(STEELYARD, [snapshot(ids=())] * 3)
    assert decision.weights.size == decision.published.size == 0


def test_one_peer_has_all_the_weight() -> None:
    _, decision = steps(STEELYARD, [snapshot(ids="a", cpu=0.9, failed=50, in_flight=40)] * 40)
    assert decision.weights.tolist() == [1000.0]
    assert decision.published.tolist() == [1]


@pytest.mark.parametrize(
    ("name", "parameters", "remedy"),
    [
        ("steelyrad", {}, "there is no law 'steelyrad'; choose one of: steelyard, paper, cswrr, static"),
        ("steelyard", {"h": 1}, "law steelyard has no parameter 'h'; it has: tau, n0"),
        (
            "steelyard",
            {"tau": 0},
            "parameter tau of law steelyard is 0; give 1 to 3600 s (the default",
        ),
        ("steelyard", {"tau": float("nan")}, "parameter tau of law steelyard is nan; give a number"),
        ("steelyard", {"H": 0.5, "L": 0.5}, "parameter L is 0.5; it must be above H (0.5)"),
        ("paper", {"H": 0.5, "L": 0.4}, "parameter L is 0.4; it must be above H (0.5)"),
        ("static", {"H": 0.5}, "law static has no parameter 'H'; it has: S"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_remedy(
    name: str, parameters: dict[str, float], remedy: str
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        laws.create(name, parameters)
    assert str(caught.value).startswith(remedy)


def test_l_follows_an_h_that_is_raised_alone() -> None:
    assert laws.create("steelyard", {"H": 0.7}).parameters["L"] == pytest.approx(0.8)
