"""Published algorithms in the model: each by its formula on hand-computed figures, and when servers fail."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from steelyard_loadtest.inference.engine import Engine, Sequence
from steelyard_simulator import comparison_loops
from steelyard_simulator.comparison_loops import knapsack_lb, robinhood
from steelyard_simulator.comparison_loops.knapsack_lb import Curve, best_units, curve_of
from steelyard_simulator.model import (
    Background,
    Balancing,
    Case,
    Draw,
    Failing,
    OpenClients,
    RunResult,
    Server,
    Step,
    Work,
)
from steelyard_simulator.pickers.angie import AngieFeedback, AngieLeastTime
from steelyard_simulator.pickers.comparison_pickers import ComparisonPicker
from steelyard_simulator.pickers.linkerd import LinkerdPeakEwma
from steelyard_simulator.pickers.lmetric import LMetric
from steelyard_simulator.pickers.traefik import TraefikLeastTime
from steelyard_simulator.run import run


def answer(
    picker: ComparisonPicker, server: int, took_s: float, *, at_s: float = 0.0, ok: bool = True
) -> None:
    """Let a server answer a request that it got at a time."""
    picker._active[server] += 1
    picker.answered(server, at_s, at_s + took_s, ok)


def shares(picker: ComparisonPicker, count: int = 20_000) -> list[float]:
    """Return the servers' parts of picks that are never answered."""
    counts = Counter(picker.pick(0.0) for _ in range(count))
    return [counts[server] / count for server in range(len(picker._weights))]


def ratio_of_cpu(result: RunResult, from_tick: int) -> float:
    """Return the largest over the mean part of the requests per core that servers of 1, 2 and 4 cores got."""
    per_core = result.ticks.picks[from_tick:].sum(axis=0) / np.array([1, 2, 4])
    return float(per_core.max() / per_core.mean())


SIZES = Case(
    servers=(Server(cores=1), Server(cores=2), Server(cores=4)),
    clients=OpenClients(rate_per_s=280.0),
    work=Work(cpu=Draw(mean_s=0.02)),
    duration_s=60.0,
    warmup_s=20.0,
)


def ran(case: Case, picker: str, loop: str | None = None) -> RunResult:
    return run(replace(case, balancing=Balancing(law=None, picker=picker, loop=loop)), 1)


def test_angie_s_least_time_goes_by_the_inverse_of_nine_tenths_old_and_one_tenth_new() -> None:
    picker = AngieLeastTime(3, Random(1))
    picker.update([1, 1, 1])
    assert shares(picker) == pytest.approx([1 / 3] * 3, abs=0.02)
    answer(picker, 0, 0.020)
    answer(picker, 1, 0.010)
    # 0.9 x 10 + 0.1 x 110 = 20. The third has the mean of the known, 20, too.
    answer(picker, 1, 0.110)
    assert shares(picker) == pytest.approx([1 / 3] * 3, abs=0.02)
    answer(picker, 2, 0.060)
    # 1/20 : 1/20 : 1/60
    assert shares(picker) == pytest.approx([3 / 7, 3 / 7, 1 / 7], abs=0.02)


def test_angie_s_least_time_takes_a_failure_for_a_fast_answer_of_at_least_a_millisecond() -> None:
    picker = AngieLeastTime(2, Random(1))
    picker.update([1, 1])
    answer(picker, 0, 0.0004, ok=False)
    answer(picker, 1, 0.009)
    assert picker._averages == [1.0, 9.0]
    assert shares(picker) == pytest.approx([0.9, 0.1], abs=0.01)


def test_angie_s_feedback_goes_by_weight_times_the_average_of_the_reported_value() -> None:
    picker = AngieFeedback(3, Random(1))
    picker.update([1, 2, 1])
    assert shares(picker) == pytest.approx([0.25, 0.5, 0.25], abs=0.02)
    values = [100.0, 100.0, 0.0]
    picker.reported = values
    for server in range(3):
        answer(picker, server, 0.01)
    # Nothing to spare counts as 1, so that the server can report again.
    assert picker._averages == [100.0, 100.0, 1.0]
    values[0], values[2] = 300.0, 2991.0
    answer(picker, 0, 0.01)
    answer(picker, 2, 0.01)
    # 0.9 x 100 + 0.1 x 300 = 120; 2 x 100; 0.9 + 299.1 = 300
    assert shares(picker) == pytest.approx([120 / 620, 200 / 620, 300 / 620], abs=0.02)


def test_servers_of_angie_s_feedback_report_their_idle_cores_of_the_last_second() -> None:
    result = ran(replace(SIZES, clients=OpenClients(rate_per_s=100.0)), "angie-feedback", "spare-capacity")
    assert ratio_of_cpu(result, 20) < 1.1
    assert ratio_of_cpu(ran(SIZES, "wrr"), 20) == pytest.approx(4 / 7 * 3, abs=0.01)


def test_traefik_takes_the_least_mean_of_a_hundred_times_times_the_requests_in_flight() -> None:
    picker = TraefikLeastTime(2, Random(1))
    picker.update([1, 1])
    # Deadlines 1 and 2, then 2 and 2, 3 and 2, 3 and 3.
    assert [picker.pick(0.0) for _ in range(4)] == [0, 0, 1, 0]
    for _ in range(3):
        picker.answered(0, 0.0, 0.010, True)
    # Without an answer a server's score is 0, however many requests it has.
    assert [picker.pick(0.1) for _ in range(5)] == [1] * 5
    for _ in range(6):
        picker.answered(1, 0.0, 0.025, True)
    # 10, 20 and 30 ms against 25.
    assert [picker.pick(0.2) for _ in range(3)] == [0, 0, 1]
    for _ in range(100):
        answer(picker, 1, 0.001)
    assert picker._means_ms == [10.0, 1.0]


def test_traefik_never_asks_a_server_again_whose_only_answer_was_slow() -> None:
    picker = TraefikLeastTime(2, Random(1))
    picker.update([1, 1])
    answer(picker, 0, 0.5)
    answer(picker, 1, 0.005)
    for number in range(1000):
        server = picker.pick(number * 1.0)
        picker.answered(server, number * 1.0, number + 0.005, True)
        assert server == 1


def test_linkerd_s_load_is_the_round_trip_times_requests_in_flight_or_the_penalty() -> None:
    picker = LinkerdPeakEwma(2, Random(1))
    picker.update([1, 1])
    assert picker.load_s(0, 0.0) == 1.0
    assert picker.load_s(0, 10.0) == pytest.approx(0.3679, abs=1e-4)
    answer(picker, 0, 10.0)
    # A peak: ten seconds are more than a faded one. A minute later, 10 e^-6 = 25 ms.
    assert picker.load_s(0, 10.0) == 10.0
    answer(picker, 0, 0.1, at_s=69.9)
    assert picker.load_s(0, 70.0) == pytest.approx(0.1)
    picker._active[0] = 2
    assert picker.load_s(0, 70.0) == pytest.approx(0.3)
    picker._active[0] = 0
    answer(picker, 0, 0.1, at_s=79.9, ok=False)
    assert picker.load_s(0, 80.0) == 5.0
    assert picker.load_s(0, 90.0) == pytest.approx(5 * 0.36788, abs=1e-3)


def test_linkerd_takes_the_lower_load_of_two_different_servers() -> None:
    picker = LinkerdPeakEwma(3, Random(1))
    picker.update([1, 1, 1])
    answer(picker, 2, 0.001, ok=False)
    chosen = Counter[int]()
    for number in range(1000):
        now_s = 1.0 + number * 0.001
        server = picker.pick(now_s)
        chosen[server] += 1
        picker.answered(server, now_s, now_s + 0.001, True)
    assert chosen[2] == 0


FAILING = Case(
    servers=(Server(failing=(Failing(start_s=5.0, end_s=25.0, part=1.0),)), Server(), Server(), Server()),
    clients=OpenClients(rate_per_s=100.0),
    work=Work(cpu=Draw(mean_s=0.02)),
    duration_s=25.0,
)


def failed(picker: str, loop: str | None = None) -> float:
    """Return the failed part of the requests while one of four servers fails within a millisecond."""
    result = ran(FAILING, picker, loop)
    return result.failed / (result.arrived * 20 / 25)


def test_only_penalties_keep_requests_from_a_server_that_fails_at_once() -> None:
    assert failed("linkerd-peakewma") < 0.01 < 0.25 < failed("peakewma")
    assert failed("traefik-leasttime") > 0.9
    assert failed("angie-leasttime") > 0.5
    # A server that fails is idle.
    assert failed("angie-feedback", "spare-capacity") > 0.25
    assert failed("edf", "robinhood") > 0.25


def test_a_pid_controller_adds_error_sum_and_change() -> None:
    pid = robinhood.Pid()
    kp, ki, kd = robinhood.KP, robinhood.KI, robinhood.KD
    assert pid.step(0.2) == pytest.approx(kp * 0.2 + ki * 0.2)
    assert pid.step(-0.1) == pytest.approx(-kp * 0.1 + ki * 0.1 - kd * 0.3)
    for _ in range(100):
        pid.step(1.0)
    assert pid.step(0.0) == pytest.approx(ki * robinhood.MOST_SUMMED - kd)


def test_robinhood_s_weights_follow_the_distance_from_the_mean_and_stay_normalized() -> None:
    service = robinhood.Service(3)
    gain = robinhood.KP + robinhood.KI
    # The mean of the two in service is 0.6; the third keeps its weight and has no part in it.
    assert service.step([0.8, 0.4, None]) == pytest.approx([1 - gain * 0.2, 1 + gain * 0.2, 1.0])
    for _ in range(200):
        weights = service.step([1.0, 0.0, 0.5])
        assert sum(weights) == pytest.approx(3.0)
    # The least, before all weights are scaled down to a mean of 1.
    assert 0 < weights[0] < robinhood.LEAST


def test_robinhood_evens_the_servers_utilization() -> None:
    # Dropbox's own clusters went from 1.26 to 1.01, and from 1.4 to 1.05.
    assert ratio_of_cpu(ran(SIZES, "edf", "robinhood"), 20) < 1.05


def test_robinhood_counts_what_a_neighbour_takes() -> None:
    taken = Background(start_s=0.0, end_s=60.0, share=0.5, idle_utilization=0.5)
    case = replace(SIZES, servers=(Server(cores=2, background=(taken,)), *[Server(cores=2)] * 2))
    case = replace(case, clients=OpenClients(rate_per_s=175.0))
    picks = ran(case, "edf", "robinhood").ticks.picks[20:].sum(axis=0)
    # With r requests a second there, 0.5 + 0.5 (0.02 r) = 0.01 (175 - r) / 2; so r = 25.
    assert picks[0] / picks.sum() == pytest.approx(1 / 7, abs=0.02)


def test_offline_curves_come_from_erlang_s_formula() -> None:
    work = Work(cpu=Draw(mean_s=0.01))
    # M/M/1: 10 ms / (1 - 0.5); M/M/2 at the same utilization waits a third of the service time.
    assert knapsack_lb.waiting_s(50.0, 1, work.cpu, 0.01) == pytest.approx(0.010)
    assert knapsack_lb.waiting_s(100.0, 2, work.cpu, 0.01) == pytest.approx(0.01 / 3)
    # M/D/1 waits half as long.
    assert knapsack_lb.waiting_s(50.0, 1, replace(work.cpu, shape="constant"), 0.01) == pytest.approx(0.005)
    curve = curve_of(Server(speed=2.0), work)
    # Five times the idle latency is at 80 % utilization of a single core.
    assert [curve.a, curve.most] == pytest.approx([0.005, 160.0])
    assert curve.latency_s(np.array([160.0]))[0] == pytest.approx(0.025, rel=0.2)
    assert curve.rate(curve.a + 80 * curve.b + 6400 * curve.c) == pytest.approx(80.0)
    assert curve.rate(0.001) == 0.0
    assert curve.rate(1.0) == pytest.approx(1.2 * 160)


def test_the_knapsack_has_the_least_average_latency() -> None:
    fast, slow = (Curve(a=a, b=0.0, c=c, most=100.0) for a, c in ((0.01, 1e-6), (0.01, 8e-6)))
    units = best_units([fast, slow], [100.0, 100.0], 100)
    costs = {
        first: sum(
            part / 100 * curve.latency_s(np.array([float(part)]))[0]
            for part, curve in ((first, fast), (100 - first, slow))
        )
        for first in range(1, 100)
    }
    assert units[0] == min(costs, key=costs.__getitem__)
    assert sum(units) == 100
    # The derivatives a + 3 c r^2 are equal where r is as 1 : 1/sqrt(8).
    assert units[0] == pytest.approx(100 * 8**0.5 / (1 + 8**0.5), abs=1)


def test_without_enough_capacity_all_get_a_part_of_what_they_can_take() -> None:
    curves = [Curve(a=0.01, b=0.0, c=1e-6, most=most) for most in (10.0, 30.0)]
    assert best_units(curves, [100.0, 100.0], 100) == [25, 75]


def test_knapsack_lb_finds_the_sizes_by_latency_alone() -> None:
    result = ran(replace(SIZES, clients=OpenClients(rate_per_s=175.0)), "edf", "knapsacklb")
    parts = result.ticks.picks[20:].sum(axis=0) / result.ticks.picks[20:].sum()
    # Few cores wait longer at the same utilization, so the small server gets less than its seventh.
    assert parts[0] < 1 / 7 < 4 / 7 < parts[2]
    even = ran(replace(SIZES, clients=OpenClients(rate_per_s=140.0)), "wrr")
    assert result.latency_ms.mean() < 0.55 * even.latency_ms.mean()


def test_knapsack_lb_moves_a_curve_after_a_period_when_a_server_slows() -> None:
    slower = Server(cores=2, steps=(Step(at_s=20.0, factor=0.4),))
    case = replace(SIZES, servers=(slower, Server(cores=2), Server(cores=2)))
    picks = ran(replace(case, clients=OpenClients(rate_per_s=150.0)), "edf", "knapsacklb").ticks.picks
    parts = picks / picks.sum(axis=1, keepdims=True)
    assert parts[5:20, 0].mean() == pytest.approx(1 / 3, abs=0.04)
    assert parts[20:24, 0].mean() > 0.28
    assert parts[45:, 0].mean() < 0.25


@pytest.mark.parametrize("loop", comparison_loops.LOOPS)
def test_a_server_out_of_service_gets_nothing_until_it_is_back(loop: str) -> None:
    servers = (Server(away=((10.0, 20.0),)), Server(), Server())
    picker = "angie-feedback" if loop == "spare-capacity" else "edf"
    case = replace(SIZES, servers=servers, clients=OpenClients(rate_per_s=60.0), upstreams=2, duration_s=30.0)
    picks = ran(replace(case, warmup_s=0.0), picker, loop).ticks.picks[:, 0]
    assert picks[10:20].sum() == 0
    assert min(picks[1:9].sum(), picks[21:].sum()) > 50


def test_an_unknown_loop_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no loop 'pid' in the model; choose one of: robinhood, knapsacklb"):
        ran(SIZES, "edf", "pid")


def asked(tokens: int, keys: tuple[int, ...] = ()) -> Sequence:
    return Sequence(keys=keys, input_tokens=tokens, output_tokens=100)


def test_lmetric_takes_the_least_product_of_new_tokens_and_batch() -> None:
    engines = [Engine(), Engine(), Engine(size=2.0)]
    picker = LMetric(engines, Random(1))
    # All products are 0: the least tokens, per size, decide.
    assert picker.pick((), 1000) == 2
    for engine, tokens in ((0, 3000), (1, 1000), (2, 4000), (2, 4000), (2, 4000)):
        engines[engine].add(asked(tokens))
    # (3,000 + 1,000) x 1, (1,000 + 1,000) x 1, (12,000 + 1,000) / 2 x 3 / 2
    assert picker.pick((), 1000) == 1
    engines[1].add(asked(2000))
    # (3,000 + 1,000) x 2 now.
    assert picker.pick((), 1000) == 0


def test_lmetric_goes_where_the_prompt_is_cached_unless_the_batch_there_is_too_large() -> None:
    engines, keys = [Engine(), Engine()], (1, 2, 3, 4)
    engines[0].add(asked(2048, keys))
    while not engines[0].totals["generated_tokens"]:
        engines[0].step()
    engines[1].add(asked(10))
    picker = LMetric(engines, Random(1))
    # One new token in a batch of one, against 2,058 in a batch of one.
    assert picker.pick(keys, 2048) == 0
    for _ in range(30):
        engines[0].add(asked(600))
    assert picker.pick(keys, 2048) == 1
