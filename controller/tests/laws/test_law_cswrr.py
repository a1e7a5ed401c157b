import numpy as np
import pytest
from steelyard_controller import laws

from .snapshots import snapshot, steps

LAW = laws.create("cswrr", {"blackout": 0})


def test_the_weight_is_requests_per_unit_of_the_busiest_indicator() -> None:
    rows = [[0.2, 0.0, 0.5, 0.1], [0.4, 0.0, 0.1, 0.1], [0.1, 0.1, 0.1, 0.8]]
    _, decision = steps(LAW, [snapshot(utilization=rows, completed=(100, 100, 80))] * 2)
    assert decision.capacity_estimate == pytest.approx([200, 250, 100])
    assert decision.weights == pytest.approx(np.array([200, 250, 100]) / 550 * 1000)


def test_failures_count_as_utilization() -> None:
    # 100 requests a second of which 20 fail: 100 / (0.5 + 1.0 * 20/100).
    _, decision = steps(LAW, [snapshot(completed=(80, 100, 100), failed=(20, 0, 0))] * 2)
    assert decision.capacity_estimate == pytest.approx([100 / 0.7, 200, 200])


def test_the_penalty_is_a_parameter() -> None:
    law = laws.create("cswrr", {"blackout": 0, "penalty": 5})
    _, decision = steps(law, [snapshot(completed=(80, 100, 100), failed=(20, 0, 0))] * 2)
    assert decision.capacity_estimate[0] == pytest.approx(100 / 1.5)


def test_in_the_first_ten_seconds_reports_are_only_watched() -> None:
    law = laws.create("cswrr")
    uneven = snapshot(cpu=(0.9, 0.3, 0.3))
    memory, watched = steps(law, [uneven] * 10)
    assert watched.weights == pytest.approx(watched.baseline)
    _, used = steps(law, [uneven], memory)
    assert used.weights[1] == pytest.approx(3 * used.weights[0])


def test_a_peer_in_its_blackout_gets_the_median_of_the_others() -> None:
    law = laws.create("cswrr")
    memory, _ = steps(law, [snapshot(cpu=(0.1, 0.2, 0.5))] * 20)
    joined = snapshot(ids="abcd", cpu=(0.1, 0.2, 0.5, 0.9))
    _, decision = steps(law, [joined] * 5, memory)
    # 1000, 500 and 200 requests per unit; the mean, as in A58, would be 567.
    assert decision.columns["median_weight"][3] == pytest.approx(500)
    assert decision.weights[3] == pytest.approx(decision.weights[1])
    assert decision.columns["blackout"].tolist() == [0, 0, 0, 1]


def test_a_peer_without_reports_gets_the_median_of_the_others() -> None:
    quiet = snapshot(ids="abcd", cpu=(0.1, 0.2, 0.5, None), completed=(100, 100, 100, None))
    _, decision = steps(LAW, [quiet] * 3)
    assert decision.weights[3] == pytest.approx(decision.weights[1])


def test_a_weight_outlives_its_reports_until_it_expires() -> None:
    law = laws.create("cswrr", {"blackout": 0, "expiration": 30})
    memory, first = steps(law, [snapshot(ids="abcd", cpu=(0.9, 0.3, 0.3, 0.3))] * 5)
    silent = snapshot(ids="abcd", cpu=(None, 0.3, 0.3, 0.3))
    memory, kept = steps(law, [silent] * 29, memory)
    memory, expired = steps(law, [silent], memory)
    assert kept.weights == pytest.approx(first.weights)
    assert expired.weights[0] == pytest.approx(expired.weights[1])
    assert expired.columns["expired"].tolist() == [1, 0, 0, 0]


def test_an_expired_peer_is_watched_again_before_it_is_used() -> None:
    law = laws.create("cswrr", {"blackout": 10, "expiration": 20})
    uneven = snapshot(ids="abcd", cpu=(0.9, 0.3, 0.3, 0.3))
    memory, _ = steps(law, [uneven] * 12)
    memory, _ = steps(law, [snapshot(ids="abcd", cpu=(None, 0.3, 0.3, 0.3))] * 25, memory)
    memory, back = steps(law, [uneven] * 10, memory)
    assert back.weights[0] == pytest.approx(back.weights[1])
    _, used = steps(law, [uneven], memory)
    assert used.weights[1] == pytest.approx(3 * used.weights[0])


def test_fewer_than_two_weights_are_no_comparison() -> None:
    only_one = snapshot(completed=(100, None, None), baseline=(1, 1, 2))
    _, decision = steps(LAW, [only_one] * 5)
    assert decision.weights == pytest.approx([250, 250, 500])


def test_a_report_without_requests_or_without_load_is_ignored() -> None:
    memory, before = steps(LAW, [snapshot(cpu=(0.9, 0.3, 0.3))] * 3)
    _, after = steps(LAW, [snapshot(cpu=(0.9, 0.0, 0.3), completed=(0, 100, 100))] * 3, memory)
    assert after.capacity_estimate == pytest.approx(before.capacity_estimate)


def test_a_late_report_is_paired_with_the_sample_of_its_window() -> None:
    loads = (0.2, 0.4, 0.8, 0.4, 0.2, 0.5)
    memory = LAW.start()
    for tick, load in enumerate(loads):
        done = None if tick == 0 else 100 * loads[tick - 1]
        memory, decision = LAW.step(memory, snapshot(cpu=load, completed=done, report_age_ticks=1))
        if tick > 0:
            assert decision.capacity_estimate == pytest.approx([100.0] * 3)
