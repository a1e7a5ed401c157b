"""Samples missing, stale, leaving, new; peers pinned, drained, backup, new, recovered: one test a case."""

import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.snapshot import Snapshot
from steelyard_protocol.weight_table import MAX_WEIGHT

from .snapshots import Figures, of, snapshot, steps

STEELYARD = laws.create("steelyard")
EVERY_LAW = pytest.mark.parametrize("law", [laws.create(name) for name in laws.NAMES], ids=laws.NAMES)
WARM = 60
"""Ticks after which slow start is over and the evidence is twice its memory."""


def uneven(**changes: Figures) -> Snapshot:
    """Return `a` at half the speed of `b` and `c`."""
    return snapshot(**{"cpu": (0.8, 0.4, 0.4), **changes})  # type: ignore[arg-type]


def test_a_missing_sample_teaches_nothing_and_takes_nothing_away() -> None:
    memory, before = steps(STEELYARD, [uneven()] * WARM)
    _, after = steps(STEELYARD, [uneven(cpu=(None, 0.4, 0.4))] * 3, memory)
    assert after.columns["matched"].tolist() == [0, 1, 1]
    assert after.weights == pytest.approx(before.weights, rel=0.001)
    assert after.score[0] == pytest.approx(before.score[0], rel=0.01)


def test_after_three_ticks_without_a_sample_the_score_is_not_known() -> None:
    memory, _ = steps(STEELYARD, [uneven()] * WARM)
    memory, third = steps(STEELYARD, [uneven(cpu=(None, 0.4, 0.4))] * 3, memory)
    _, fourth = steps(STEELYARD, [uneven(cpu=(None, 0.4, 0.4))], memory)
    assert not np.isnan(third.score).any()
    assert np.isnan(fourth.score).tolist() == [True, False, False]


def test_the_evidence_about_a_silent_peer_stays_for_hours() -> None:
    memory, before = steps(STEELYARD, [uneven()] * WARM)
    _, after = steps(STEELYARD, [uneven(cpu=(None, 0.4, 0.4), completed=6000, tick_s=60.0)] * 240, memory)
    assert after.columns["prior_share"][0] < 0.01
    assert after.weights == pytest.approx(before.weights, rel=0.02)


def test_an_indicator_that_is_not_measured_is_left_out() -> None:
    rows = [[0.8, None, 0.1, 0.2], [0.4, None, 0.1, 0.2], [0.4, None, 0.1, 0.2]]
    _, decision = steps(STEELYARD, [snapshot(utilization=rows)] * WARM)
    assert decision.capacity_estimate == pytest.approx([125, 250, 250], rel=0.01)
    assert not np.isnan(decision.score).any()
    assert np.isnan(decision.columns["residual_net"]).all()


def test_a_sample_that_is_late_is_paired_with_the_report_of_its_window() -> None:
    loads = [0.2, 0.8] * WARM
    # Both are of the window two ticks ago, and the samples' own window had 250 requests per busy second.
    late = [
        snapshot(cpu=loads[tick - 2], completed=250 * loads[tick - 2], sample_age_ticks=2, report_age_ticks=2)
        for tick in range(2, len(loads))
    ]
    _, decision = steps(STEELYARD, late)
    assert decision.capacity_estimate == pytest.approx([250] * 3, rel=0.001)
    assert decision.columns["restarts"].tolist() == [0, 0, 0]


def test_a_sample_and_a_report_of_different_ages_meet_at_their_own_window() -> None:
    loads = [0.2, 0.8] * WARM
    mixed = [
        snapshot(cpu=loads[tick - 2], completed=250 * loads[tick - 1], sample_age_ticks=2, report_age_ticks=1)
        for tick in range(2, len(loads))
    ]
    _, decision = steps(STEELYARD, mixed)
    assert decision.capacity_estimate == pytest.approx([250] * 3, rel=0.001)


def test_a_stale_sample_is_no_sample() -> None:
    memory, before = steps(STEELYARD, [uneven()] * WARM)
    stale = uneven(cpu=(0.1, 0.4, 0.4), sample_age_ticks=(8, 0, 0))
    _, after = steps(STEELYARD, [stale], memory)
    assert after.columns["sampleless_ticks"].tolist() == [1, 0, 0]
    assert after.capacity_estimate[0] == pytest.approx(before.capacity_estimate[0], rel=0.001)


@EVERY_LAW
def test_a_leaving_peer_gets_a_fiftieth_of_its_baseline(law: laws.Law) -> None:
    memory, _ = steps(law, [snapshot()] * WARM)
    _, decision = steps(law, [snapshot(leaving="a", cpu=(None, 0.5, 0.5))], memory)
    assert decision.weights[0] == pytest.approx(0.02 * decision.weights[1])
    assert decision.weights[1] == pytest.approx(decision.weights[2])
    assert decision.weights.sum() == pytest.approx(decision.total)


@EVERY_LAW
def test_when_a_peer_has_left_the_others_share_the_whole(law: laws.Law) -> None:
    memory, before = steps(law, [uneven()] * WARM)
    _, after = steps(law, [snapshot(ids="bc", cpu=0.4)], memory)
    assert after.ids == ("b", "c")
    assert after.weights.sum() == pytest.approx(after.total)
    assert after.weights[0] / after.weights[1] == pytest.approx(before.weights[1] / before.weights[2])


def test_memory_follows_peers_that_are_reordered() -> None:
    memory, before = steps(STEELYARD, [uneven()] * WARM)
    _, after = steps(STEELYARD, [snapshot(ids="cba", cpu=(0.4, 0.4, 0.8))], memory)
    assert after.weights[::-1] == pytest.approx(before.weights, rel=0.001)


def test_a_new_peer_has_its_baseline_as_the_prior_and_is_ramped_up() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.5)] * WARM)
    joined = snapshot(ids="abcd", cpu=(0.5, 0.5, 0.5, None), completed=(100, 100, 100, None))
    _, decision = steps(STEELYARD, [joined], memory)
    assert decision.columns["prior_share"][3] == 1.0
    assert np.isnan(decision.score[3])
    assert decision.columns["join"].tolist() == [1, 1, 1, 0.1]
    assert decision.weights[3] == pytest.approx(0.1 * decision.weights[0], rel=0.01)


def test_slow_start_is_linear_over_the_ramp_with_a_floor() -> None:
    memory, _ = steps(STEELYARD, [snapshot(cpu=0.5)] * WARM)
    joins = []
    for _tick in range(40):
        memory, decision = STEELYARD.step(memory, snapshot(ids="abcd", cpu=0.5))
        joins.append(float(decision.columns["join"][3]))
    expected = [min(1.0, max(0.1, (tick + 1) / 30)) for tick in range(40)]
    assert joins == pytest.approx(expected)


def test_slow_start_has_the_ramp_and_the_floor_of_the_parameters() -> None:
    law = laws.create("steelyard", {"ramp": 10, "join_min": 0.4})
    memory, _ = steps(law, [snapshot(cpu=0.5)] * WARM)
    joins = []
    for _tick in range(11):
        memory, decision = law.step(memory, snapshot(ids="abcd", cpu=0.5))
        joins.append(float(decision.columns["join"][3]))
    assert joins == pytest.approx([max(0.4, min(1.0, (tick + 1) / 10)) for tick in range(11)])


def test_without_a_ramp_there_is_no_slow_start() -> None:
    law = laws.create("steelyard", {"ramp": 0})
    _, decision = steps(law, [snapshot()])
    assert decision.columns["join"].tolist() == [1, 1, 1]


def test_slow_start_holds_no_server_back_when_all_are_new() -> None:
    _, decision = steps(STEELYARD, [snapshot(baseline=(1, 2, 5), completed=(20, 40, 100), in_flight=0)])
    assert decision.weights == pytest.approx([125, 250, 625])
    assert len(set(decision.columns["join"].tolist())) == 1


def test_a_recovered_peer_is_ramped_up_again() -> None:
    memory, _ = steps(STEELYARD, [snapshot()] * WARM)
    away = snapshot(cpu=(None, 0.5, 0.5), completed=(0, 100, 100))
    memory, _ = steps(STEELYARD, [away] * 31, memory)
    _, back = steps(STEELYARD, [snapshot()] * 15, memory)
    assert back.columns["join"].tolist() == [pytest.approx(0.5), 1, 1]


@pytest.mark.parametrize("cpu", [None, 0.0], ids=["no samples", "its agent is alive"])
def test_an_absence_costs_a_second_of_warmth_a_second(cpu: float | None) -> None:
    memory, _ = steps(STEELYARD, [snapshot()] * WARM)
    memory, _ = steps(STEELYARD, [snapshot(cpu=(cpu, 0.5, 0.5), completed=(0, 100, 100))] * 20, memory)
    _, back = steps(STEELYARD, [snapshot()], memory)
    assert back.columns["join"].tolist() == [pytest.approx(11 / 30), 1, 1]


def test_a_short_silence_of_its_agent_is_no_absence() -> None:
    memory, _ = steps(STEELYARD, [snapshot()] * WARM)
    memory, _ = steps(STEELYARD, [snapshot(cpu=(None, 0.5, 0.5))] * 30, memory)
    _, back = steps(STEELYARD, [snapshot()], memory)
    assert back.columns["join"].tolist() == [1, 1, 1]


def test_a_peer_without_requests_is_not_away_while_few_are_due() -> None:
    memory, _ = steps(STEELYARD, [snapshot()] * WARM)
    few = snapshot(cpu=0.01, completed=(0, 1, 1), in_flight=0, latency_s=(None, 0.01, 0.01))
    _, after = steps(STEELYARD, [few] * 29, memory)
    assert after.columns["join"].tolist() == [1, 1, 1]


def test_a_peer_whose_requests_take_long_is_not_away_between_two_of_them() -> None:
    many = snapshot(completed=10, in_flight=200, latency_s=20.0)
    memory, _ = steps(STEELYARD, [many] * WARM)
    between = snapshot(completed=(0, 10, 10), in_flight=200, latency_s=(None, 20.0, 20.0))
    _, after = steps(STEELYARD, [between] * 30, memory)
    assert after.columns["join"].tolist() == [1, 1, 1]


def test_no_server_is_away_while_all_are_silent() -> None:
    memory, _ = steps(STEELYARD, [snapshot()] * WARM)
    memory, _ = steps(STEELYARD, [snapshot(cpu=None, completed=None)] * 100, memory)
    _, back = steps(STEELYARD, [snapshot()], memory)
    assert back.columns["join"].tolist() == [1, 1, 1]


@EVERY_LAW
def test_a_pinned_weight_is_kept_and_the_others_share_the_rest(law: laws.Law) -> None:
    pinned = uneven(pinned=(400, None, None))
    _, decision = steps(law, [pinned] * WARM)
    assert decision.weights[0] == 400
    assert decision.published[0] == 400
    assert decision.weights[1] == pytest.approx(300)
    assert decision.columns["clamp_pin"].tolist() == [0, 0, 0]


@EVERY_LAW
def test_pins_that_leave_nothing_are_scaled_down_so_that_no_server_gets_less_than_1(law: laws.Law) -> None:
    _, decision = steps(law, [uneven(pinned=(3000, 1000, None))])
    assert decision.weights.sum() == pytest.approx(1000)
    assert decision.weights[0] == pytest.approx(3 * decision.weights[1])
    assert decision.weights[2] == pytest.approx(1)
    assert decision.columns["clamp_pin"].tolist() == [1, 1, 0]
    assert decision.published.min() >= 1


@EVERY_LAW
def test_when_all_are_pinned_the_pins_are_proportions(law: laws.Law) -> None:
    _, decision = steps(law, [uneven(pinned=(1, 2, 2))])
    assert decision.weights == pytest.approx([200, 400, 400])
    assert decision.published.tolist() == [200, 400, 400]


def test_a_pinned_peer_goes_on_learning() -> None:
    _, decision = steps(STEELYARD, [uneven(pinned=(400, None, None))] * WARM)
    assert decision.capacity_estimate[0] == pytest.approx(125, rel=0.01)


def test_others_are_not_compared_with_a_drained_peer() -> None:
    # `c` is idle because it is drained; were it judged, it would widen every range and be "low load".
    rows = [[0.6, 0.1, 0.1, 0.1], [0.6, 0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 0.0]]
    done = (100, 100, 0)
    _, drained = steps(STEELYARD, [snapshot(utilization=rows, completed=done, eligible="ab")] * WARM)
    _, two = steps(STEELYARD, [snapshot(ids="ab", utilization=rows[:2])] * WARM)
    assert drained.entropy_weights == pytest.approx(two.entropy_weights)
    assert drained.alert == two.alert
    assert drained.weights[0] == drained.weights[1]
    assert drained.columns["backlog"][:2] == pytest.approx(two.columns["backlog"])


def test_a_drained_peer_learns_nothing_and_does_not_move_the_others() -> None:
    memory, before = steps(STEELYARD, [uneven()] * WARM)
    burning = uneven(cpu=(0.8, 0.4, 1.0), completed=(100, 100, 3), in_flight=(1, 1, 500))
    drained = snapshot(
        cpu=burning.utilization[:, 0].tolist(), completed=(100, 100, 3), in_flight=(1, 1, 500), eligible="ab"
    )
    _, after = steps(STEELYARD, [drained] * 20, memory)
    assert after.columns["matched"].tolist() == [1, 1, 0]
    ratio = after.weights[:2] / before.weights[:2]
    assert ratio[0] == pytest.approx(ratio[1], rel=0.001)


def test_a_peer_that_was_drained_starts_slowly_when_it_is_back() -> None:
    memory, _ = steps(STEELYARD, [snapshot()] * WARM)
    memory, _ = steps(
        STEELYARD, [snapshot(cpu=(0, 0.5, 0.5), completed=(0, 100, 100), eligible="bc")] * 5, memory
    )
    _, back = steps(STEELYARD, [snapshot()], memory)
    assert back.columns["join"].tolist() == [0.1, 1, 1]


def test_a_backup_counts_as_out_of_service() -> None:
    # For a law, a backup is a peer that is not eligible: it keeps a weight for later use.
    backup = snapshot(cpu=(0.5, 0.5, 0.0), completed=(100, 100, 0), eligible="ab")
    _, decision = steps(STEELYARD, [backup] * WARM)
    assert decision.weights[2] > 0
    assert decision.columns["evidence_requests"][of(decision, "c")] == 0
    assert decision.weights[0] == decision.weights[1]


def test_reports_that_stop_teach_nothing_for_three_ticks() -> None:
    memory, before = steps(STEELYARD, [uneven()] * WARM)
    silent = uneven(completed=None, failed=None, in_flight=None, latency_s=None)
    memory, after = steps(STEELYARD, [silent] * 3, memory)
    assert after.columns["matched"].tolist() == [0, 0, 0]
    assert after.weights == pytest.approx(before.weights, rel=0.002)


def test_without_reports_the_weights_stay_and_nothing_is_learnt() -> None:
    memory, before = steps(STEELYARD, [uneven(cpu=(0.5, 0.5, 0.5))] * WARM)
    silent = snapshot(cpu=(0.9, 0.5, 0.5), completed=None, failed=None, in_flight=None, latency_s=None)
    memory, decision = steps(STEELYARD, [silent] * 200, memory)
    assert np.isnan(decision.columns["learnt_count"]).all()
    assert decision.columns["backlog"].tolist() == [1, 1, 1]
    assert decision.weights == pytest.approx(before.weights, rel=1e-3)
    assert decision.columns["request_cost"].tolist() == before.columns["request_cost"].tolist()


@EVERY_LAW
def test_no_samples_and_no_traffic_is_the_baseline(law: laws.Law) -> None:
    nothing = snapshot(cpu=None, completed=None, in_flight=None, latency_s=None, baseline=(1, 2, 7))
    _, decision = steps(law, [nothing] * 50)
    assert decision.weights == pytest.approx([100, 200, 700], rel=1e-9)


@pytest.mark.parametrize(("peers", "total"), [(2, 1000), (10_000, 200_000), (93_000, MAX_WEIGHT)])
def test_no_peer_of_the_largest_table_can_have_a_weight_that_nginx_refuses(peers: int, total: int) -> None:
    assert law_total(0, peers) == total


def test_the_first_peers_of_a_snapshot_are_a_snapshot_under_their_new_names() -> None:
    some = snapshot(cpu=(0.1, 0.2, 0.3)).first(2, ["x", "y", "z"])
    assert some.ids == ("x", "y")
    assert some.utilization[:, 0].tolist() == [0.1, 0.2]
    assert some.knees.shape == (4,)


@pytest.mark.parametrize(("busy", "held"), [(0.5, 0.1), (0.85, 0.1), (1.1, 0.5)])
def test_a_new_server_takes_what_the_others_cannot_carry(busy: float, held: float) -> None:
    def tick(number: int, load: float, ids: str) -> Snapshot:
        queue = max(0.0, load - 1.0) * 200 * number
        return snapshot(
            ids=ids,
            cpu=[min(load, 1.0)] * 2 + [0.1] * (len(ids) - 2),
            completed=[200 * min(load, 1.0)] * 2 + [20.0] * (len(ids) - 2),
            in_flight=[1.0 + queue] * 2 + [0.0] * (len(ids) - 2),
        )

    memory, _ = steps(STEELYARD, [tick(0, 0.5, "ab")] * WARM)
    _, decision = steps(STEELYARD, [tick(number, busy, "abc") for number in range(1, 4)], memory)
    assert decision.columns["join"][2] == pytest.approx(held, abs=0.05)
    # Whom nobody spares is spared nothing.
    assert decision.columns["join"][:2].tolist() == [1.0, 1.0]
