"""The default law step by step; its dynamics are in test_law_dynamics, its inputs in test_law_inputs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_controller.laws.snapshot import Floats
from steelyard_controller.laws.steelyard import capacity_estimate
from steelyard_controller.laws.steelyard.steelyard_parameters import REMEMBERED_S

from .snapshots import figures, golden, golden_snapshot, snapshot, steps

IDS = ("a", "b", "c")
STEELYARD = laws.create("steelyard")


def close(value: Floats, expected: list[float | None], number: int) -> None:
    # The goldens are printed to nine places after the point, and from the fourth case on to eleven digits.
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
        assert decision.published.tolist() == tick["quantized"]


def test_a_golden_case_goes_on_the_same_through_an_encoded_memory() -> None:
    case = golden("law")[1]
    memory = STEELYARD.start()
    for number, tick in enumerate(case["ticks"]):
        restored = laws.decode_memory(STEELYARD, laws.encode_memory("steelyard", memory))
        assert restored is not None
        memory, decision = STEELYARD.step(restored, golden_snapshot(case, number))
        close(decision.weights, tick["weights"], number)


def test_the_weight_is_the_requests_of_a_peer_per_busy_second() -> None:
    _, decision = steps(STEELYARD, [snapshot(cpu=(0.8, 0.4, 0.4), completed=100)] * 60)
    a, b, c = decision.weights
    assert b == pytest.approx(2 * a, rel=0.01)
    assert c == b
    assert decision.capacity_estimate[:2] == pytest.approx([125, 250], rel=0.01)


def test_a_server_full_of_somebody_elses_work_before_the_first_request_gets_few() -> None:
    full = snapshot(cpu=(1.0, 0.1, 0.1), completed=0, in_flight=0, latency_s=None)
    _, decision = steps(STEELYARD, [full] * 20)
    assert decision.weights == pytest.approx(np.array([0.1, 1, 1]) / 2.1 * 1000, rel=0.01)


@pytest.mark.parametrize("seconds", [0.01, 1.0, 20.0])
def test_the_prior_is_worth_a_load_second_at_most(seconds: float) -> None:
    # One request at a time of a number of load seconds, each on a server of its own.
    rate = 0.5 / seconds
    some = snapshot(cpu=0.5, completed=rate, in_flight=1, latency_s=seconds)
    _, decision = steps(STEELYARD, [some] * 60)
    worth = min(10.0, 1.0 / decision.columns["request_cost"][0])
    assert decision.columns["prior_share"][0] == pytest.approx(worth / (worth + 60 * rate), rel=0.02)


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


def test_others_load_is_known_when_the_requests_have_stopped() -> None:
    busy = snapshot(cpu=0.5, completed=100)
    noisy = snapshot(cpu=(0.3, 0.0, 0.0), completed=0, in_flight=0, latency_s=None)
    memory, _ = steps(STEELYARD, [busy] * 30)
    _, decision = steps(STEELYARD, [noisy] * 200, memory)
    assert decision.weights == pytest.approx(np.array([0.7, 1, 1]) / 2.7 * 1000, rel=0.01)


def test_a_night_without_a_request_is_not_forgotten_and_a_weekend_ends_on_the_baselines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, before = steps(STEELYARD, [snapshot(cpu=(0.8, 0.4, 0.4))] * 60)
    # Evidence that only fades would underflow after six hours.
    idle = snapshot(cpu=0.0, completed=0, in_flight=0, latency_s=None, tick_s=60.0)
    memory, morning = steps(STEELYARD, [idle] * 8 * 60, memory)
    assert morning.weights == pytest.approx(before.weights, rel=0.02)
    # The other 40 hours of the weekend pass twelve times as fast.
    monkeypatch.setattr(capacity_estimate, "REMEMBERED_S", REMEMBERED_S / 12)
    _, monday = steps(STEELYARD, [idle] * 200, memory)
    assert monday.weights == pytest.approx(monday.baseline, rel=0.01)


def test_an_idle_peer_is_not_taken_to_work_for_nothing() -> None:
    _, decision = steps(STEELYARD, [snapshot(cpu=(0.001, 0.5, 0.5), completed=(1, 100, 100))] * 60)
    # 1000 requests per busy second, taken at its word, would be five times the others' 200; a load of 0.02
    # is what any server has for no reason.
    assert decision.weights[0] < 1.5 * decision.weights[1]


def test_the_cost_of_a_request_and_others_load_worked_out_by_hand() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.5)] * 60)
    # A tenth of the requests has nearly the load of all. The 10 requests explain 0.05, so extra = 0.4. A part
    # of 0.05^2/(0.05^2 + 0.1^2) = 0.2 counts as more expensive requests: w = 0.32,
    # e = 5 ms (1 + 0.08/0.05) = 13 ms.
    _, decision = steps(STEELYARD, [snapshot(cpu=(0.45, 0.5, 0.5), completed=(10, 100, 100))], memory)
    assert decision.columns["restarted"][0] == 1.0
    assert decision.columns["not_ours"][0] == pytest.approx(0.32, abs=0.002)
    assert decision.capacity_estimate[0] == pytest.approx((1 - 0.32) / 0.013, rel=0.02)


@pytest.mark.parametrize(("latency_s", "able"), [(0.01, 200.0), (0.04, 125.0), (10.0, 100.0)])
def test_a_full_server_is_as_able_as_its_requests_in_flight_say(latency_s: float, able: float) -> None:
    memory, before = steps(STEELYARD, [snapshot(cpu=0.5)] * 60)
    # Half load and one request in flight: V_half is 1. 100 requests of 10 ms are V = 1: half load, as before.
    # 100 requests of 40 ms are V = 4: load 0.8. With 10 s, the load is all ours.
    full = snapshot(cpu=(1.0, 0.5, 0.5), latency_s=(latency_s, 0.01, 0.01))
    _, decision = steps(STEELYARD, [full] * 3, memory)
    assert before.capacity_estimate[0] == pytest.approx(200, rel=0.01)
    assert decision.capacity_estimate[0] == pytest.approx(able, rel=0.06)


def test_a_recovered_server_is_detected_within_two_windows() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.5)] * 60)
    pinned = snapshot(cpu=(1.0, 0.6, 0.6), completed=(10, 120, 120), latency_s=(0.4, 0.01, 0.01))
    memory, cut = steps(STEELYARD, [pinned] * 30, memory)
    mended = snapshot(cpu=(0.05, 0.6, 0.6), completed=(10, 120, 120))
    _, back = steps(STEELYARD, [mended] * 2, memory)
    assert cut.capacity_estimate[0] < 20
    assert back.capacity_estimate[0] > 0.8 * 200


@pytest.mark.parametrize("part", [0.1, 0.4, 0.7])
def test_a_neighbour_that_leaves_within_a_window_has_left(part: float) -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.5)] * 60)
    pinned = snapshot(cpu=(1.0, 0.6, 0.6), completed=(1, 125, 125), latency_s=(0.8, 0.01, 0.01))
    memory, _ = steps(STEELYARD, [pinned] * 20, memory)
    leaves = snapshot(
        cpu=(part, 0.6, 0.6), completed=(0, 125, 125), in_flight=0, latency_s=(None, 0.01, 0.01)
    )
    memory, back = steps(STEELYARD, [leaves], memory)
    assert back.capacity_estimate[0] > 0.8 * 200
    # If it has not left, that counts at once, too.
    stays = snapshot(cpu=(part + 0.2, 0.6, 0.6), completed=(10, 125, 125))
    _, after = steps(STEELYARD, [stays] * 2, memory)
    assert after.capacity_estimate[0] < 1.3 * (1.0 - part - 0.2 + 0.05) * 200


def test_idleness_after_the_end_of_traffic_does_not_change_an_estimate() -> None:
    memory, before = steps(STEELYARD, [snapshot(cpu=0.5)] * 60)
    # The first's sample ended half a second after its report, the second's with it.
    ends = snapshot(cpu=(0.02, 0.5, 0.25), in_flight=0)
    quiet = snapshot(cpu=0.0, completed=(1, 0, 0), in_flight=0, latency_s=(0.01, None, None))
    for count in range(1, 12):
        _, after = steps(STEELYARD, [ends] + [quiet] * count, memory)
        np.testing.assert_allclose(after.weights, before.weights, rtol=0.1)


def test_a_gain_of_half_is_detected_within_seconds_without_a_change_of_limits() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=(0.6, 0.5, 0.5))] * 60)
    faster = snapshot(cpu=(0.4, 0.5, 0.5))
    _, after = steps(STEELYARD, [faster] * 6, memory)
    assert after.capacity_estimate[0] > 0.9 * 250


def test_a_server_without_requests_is_freed_by_its_idleness() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.5)] * 60)
    pinned = snapshot(cpu=(1.0, 0.6, 0.6), completed=(1, 125, 125), latency_s=(0.8, 0.01, 0.01))
    memory, cut = steps(STEELYARD, [pinned] * 20, memory)
    idle = snapshot(cpu=(0.01, 0.6, 0.6), completed=(0, 125, 125), in_flight=0, latency_s=(None, 0.01, 0.01))
    _, back = steps(STEELYARD, [idle] * 2, memory)
    assert cut.capacity_estimate[0] < 20
    assert back.capacity_estimate[0] > 0.8 * 200


def test_a_server_that_lost_much_is_not_starved() -> None:
    # The neighbour takes nine tenths and always shows u = 1. Our requests wait little.
    memory, decision = steps(STEELYARD, [snapshot(cpu=0.5)] * 60)
    sent = 100.0
    for _tick in range(60):
        able = 20.0
        load = min(sent / able, 0.99)
        now = snapshot(
            cpu=(1.0, 0.6, 0.6),
            completed=(min(sent, able), 120, 120),
            latency_s=(1 / (able * (1 - load)), 0.01, 0.01),
        )
        memory, decision = STEELYARD.step(memory, now)
        sent = 250 * decision.weights[0] / decision.weights.sum()
    assert 0.6 * 20 / 420 < decision.weights[0] / decision.weights.sum() < 1.2 * 20 / 420


def test_a_limit_that_is_halved_halves_the_estimate_at_once() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.4)] * 60)
    capacity = np.array([[2.0, 125e6, 5000.0, 8e9], *([[4.0, 125e6, 5000.0, 8e9]] * 2)])
    halved = replace(snapshot(cpu=(0.8, 0.4, 0.4)), capacity=capacity)
    _, decision = STEELYARD.step(memory, halved)
    assert decision.columns["restarted"][0] == 0.0
    assert decision.capacity_estimate[:2] == pytest.approx([125, 250], rel=0.01)


def test_a_limit_is_nothing_to_a_server_that_its_disk_bounds() -> None:
    rows = [[0.1, 0.0, 0.8, 0.1]] * 3
    memory, _ = steps(STEELYARD, [snapshot(utilization=rows)] * 60)
    capacity = np.array([[2.0, 125e6, 5000.0, 8e9], *([[4.0, 125e6, 5000.0, 8e9]] * 2)])
    _, decision = STEELYARD.step(memory, replace(snapshot(utilization=rows), capacity=capacity))
    # Except for the prior of some requests, which follows the hardware.
    assert decision.capacity_estimate == pytest.approx([125] * 3, rel=0.001)


def test_a_backlog_is_drained() -> None:
    level = [snapshot(cpu=0.9)] * 30
    memory, before = steps(STEELYARD, level)
    _, after = steps(STEELYARD, [snapshot(cpu=0.9, in_flight=(100, 1, 1))], memory)
    # 0.9 s of work beside a mean of 0.306 s, to be worked off within 3 s; the others get up to 10 % more.
    assert after.columns["backlog"] == pytest.approx([0.802, 1.099, 1.099], rel=0.001)
    assert after.weights / before.weights == pytest.approx([0.802, 1.099, 1.099], rel=0.001)


def test_a_backlog_means_busy_under_any_sample() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.2)] * 60)
    # A lock or a full pool: no load, and 900 requests wait the nine seconds for the 100 before them.
    waits = snapshot(cpu=0.2, in_flight=(900, 1, 1), latency_s=(9.0, 0.01, 0.01))
    _, decision = steps(STEELYARD, [waits] * 5, memory)
    assert decision.columns["own_load"][0] == 1.0
    assert decision.columns["waiting"][0] == pytest.approx(899, abs=1)
    assert decision.capacity_estimate[0] < 0.5 * decision.capacity_estimate[1]


def test_a_server_that_stops_answering_has_a_backlog_at_any_load() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.2)] * 60)
    hangs = snapshot(cpu=(0.0, 0.2, 0.2), completed=(0, 100, 100), in_flight=(500, 1, 1))
    _, decision = steps(STEELYARD, [hangs] * 5, memory)
    assert decision.columns["waiting"][0] == pytest.approx(499, abs=1)
    assert decision.columns["backlog"][0] < 0.8


def test_connections_that_are_merely_open_are_no_backlog() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.5)] * 60)
    memory, after = steps(STEELYARD, [snapshot(cpu=0.5, in_flight=(2000, 1, 1))] * 60, memory)
    assert after.columns["open"][0] == pytest.approx(2000, rel=0.01)
    assert after.columns["backlog"] == pytest.approx(1, abs=0.01)
    # Further requests at full load wait.
    _, full = steps(STEELYARD, [snapshot(cpu=1.0, in_flight=(2100, 1, 1))], memory)
    assert full.columns["waiting"][0] == pytest.approx(100, abs=2)


def test_slowness_costs_weight_while_a_peer_is_idle() -> None:
    _, decision = steps(STEELYARD, [snapshot(cpu=0.1, latency_s=(2.0, 0.01, 0.01))] * 30)
    assert decision.columns["slow"][0] < 0.1
    assert decision.columns["slow"][1:].tolist() == [1.0, 1.0]


def test_slowness_of_a_busy_peer_is_its_load_not_a_fault() -> None:
    _, decision = steps(STEELYARD, [snapshot(cpu=(1.0, 0.5, 0.5), latency_s=(0.08, 0.01, 0.01))] * 60)
    assert decision.columns["slow"][0] > 0.99


@pytest.mark.parametrize(("times", "kept"), [(5, 1.0), (10, 0.993), (100, 0.971)])
def test_one_slow_request_is_weak_evidence_and_gone_with_its_window(times: float, kept: float) -> None:
    idle = snapshot(ids="abcd", cpu=0.0, completed=0, in_flight=0, latency_s=None)
    latency_s = (0.01 * times, None, 0.01, 0.01)
    one = snapshot(ids="abcd", cpu=0.0, completed=(1, 0, 1, 1), in_flight=0, latency_s=latency_s)
    memory, before = steps(STEELYARD, [idle] * 60)
    memory, during = steps(STEELYARD, [one], memory)
    _, after = steps(STEELYARD, [idle], memory)
    # (kappa / times)^(1/101): one request, and ten would be half of the truth; gone with the next window.
    assert during.columns["slow"].tolist() == [pytest.approx(kept, abs=0.005), 1, 1, 1]
    assert after.columns["slow"].tolist() == [1, 1, 1, 1]
    assert after.weights == pytest.approx(before.weights, rel=1e-4)


def test_of_two_servers_the_slow_one_is_compared_with_the_other() -> None:
    idle = snapshot(ids="ab", cpu=0.1, latency_s=(1.0, 0.01))
    _, decision = steps(STEELYARD, [idle] * 30)
    assert decision.columns["slow"][0] < 0.1
    assert decision.columns["slow"][1] == 1.0


def test_failures_are_punished_against_the_others() -> None:
    _, decision = steps(STEELYARD, [snapshot(completed=(50, 100, 100), failed=(50, 0, 0))] * 60)
    assert decision.columns["err"][0] == pytest.approx(0.5**3, rel=0.05)


def test_no_server_loses_weight_when_all_fail_alike() -> None:
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
    _, decision = steps(STEELYARD, [wrong] * 150)
    assert decision.columns["clamp_ceiling"].tolist() == [1.0, 0.0]
    # The other is at half of its baseline: equal speed would be 500 to 500.
    assert decision.weights[0] / decision.weights[1] == pytest.approx(np.exp(4.0) / 1000 / 0.5, rel=0.02)


def test_a_step_in_speed_is_found_at_once() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.5)] * 60)
    slower = snapshot(cpu=(1.0, 0.5, 0.5), latency_s=(0.5, 0.01, 0.01))
    memory, decision = steps(STEELYARD, [slower], memory)
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
    assert decision.published.tolist() == [1000]


@pytest.mark.parametrize(
    ("name", "parameters", "remedy"),
    [
        ("steelyrad", {}, f"there is no law 'steelyrad'; choose one of: {', '.join(laws.NAMES)}"),
        ("steelyard", {"h": 1}, "law steelyard has no parameter 'h'; choose one of: tau, n0"),
        (
            "steelyard",
            {"tau": 0},
            "parameter tau of law steelyard is 0; give 1 to 3600 s (the default",
        ),
        ("steelyard", {"tau": float("nan")}, "parameter tau of law steelyard is nan; give a number"),
        ("steelyard", {"H": 0.5, "L": 0.5}, "parameter L is 0.5; it must be above H (0.5)"),
        ("paper", {"H": 0.5, "L": 0.4}, "parameter L is 0.4; it must be above H (0.5)"),
        ("static", {"H": 0.5}, "law static has no parameter 'H'; choose one of: S"),
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
