"""The model's pickers: the product's Lua picks as in its specs, the comparison pickers by their rules."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from steelyard_loadtest.machine import picker_list
from steelyard_simulator import pickers
from steelyard_simulator.model import Balancing, Case, Draw, Late, OpenClients, Server, Work
from steelyard_simulator.pickers import Picker
from steelyard_simulator.pickers.comparison_pickers import LeastTime, PeakEwma
from steelyard_simulator.run import run

BY_TURNS = [name for name in pickers.OURS if name != "peak_ewma"]
"""At rest by weight alone; the other follows the latencies."""


BY_COST = ("vnswrr2", "least_conn")


def case_of(name: str, servers: int, **changes: Any) -> Case:
    return Case(
        servers=(Server(),) * servers, clients=OpenClients(rate_per_s=1), work=Work(), duration_s=1,
        balancing=Balancing(picker=name), **changes,
    )  # fmt: skip


def made(name: str, weights: Sequence[int], seed: int = 1) -> Picker:
    picker = pickers.maker(case_of(name, len(weights)), seed)(0)
    picker.update(weights)
    return picker


def idle_picks(picker: Picker, count: int) -> list[int]:
    """Return picks of which each is answered before the next: a cluster at rest."""
    chosen = []
    for number in range(count):
        server = picker.pick(number * 0.01)
        picker.answered(server, number * 0.01, number * 0.01, True)
        chosen.append(server)
    return chosen


def is_a_rotation(chosen: list[int], cycle: list[int]) -> bool:
    return any(chosen == cycle[at:] + cycle[:at] for at in range(len(cycle)))


@pytest.mark.parametrize("name", BY_TURNS)
def test_our_pickers_serve_a_cluster_at_rest_in_nginx_s_order(name: str) -> None:
    # spec/core/pickers/every_picker_spec.lua: a a b a c a a; a product's ring starts anywhere in its cycle.
    cycle = [0, 0, 1, 0, 2, 0, 0]
    for seed in range(5):
        assert is_a_rotation(idle_picks(made(name, [5, 1, 1], seed), 7), cycle)


@pytest.mark.parametrize("name", BY_TURNS)
def test_our_pickers_give_each_server_its_share_exactly_over_a_cycle(name: str) -> None:
    weights = [index % 7 + 1 for index in range(50)]
    counts = Counter(idle_picks(made(name, weights), sum(weights)))
    assert [counts[server] for server in range(50)] == weights


def test_balancers_with_subsets_pick_a_part_each_and_together_by_weight() -> None:
    weights = [20 * (index % 4 + 1) for index in range(80)]
    make = pickers.maker(case_of("vnswrr", 80, subset_size=10, balancers=8), 1)
    total: Counter[int] = Counter()
    for index in range(8):
        picker = make(index)
        picker.update(weights)
        own = Counter(idle_picks(picker, 2 * sum(weights) // 8))
        assert 8 <= len(own) <= 20
        total += own
    assert [total[server] for server in range(80)] == pytest.approx([2 * each for each in weights], rel=0.08)


def test_each_balancer_s_ring_starts_at_a_place_of_its_own() -> None:
    make = pickers.maker(case_of("vnswrr", 40), 1)
    firsts = []
    for index in range(20):
        picker = make(index)
        picker.update([1] * 40)
        firsts.append(picker.pick(0.0))
    assert len(set(firsts)) > 10


def test_vnswrr2_takes_the_less_loaded_of_two() -> None:
    # Two servers: the two candidates are always both. Requests in flight count against the weight.
    picker = made("vnswrr2", [3, 1])
    in_flight = [0, 0]
    for _ in range(40):
        in_flight[picker.pick(0.0)] += 1
    assert in_flight == [30, 10]


def test_least_conn_takes_the_least_loaded_of_all() -> None:
    picker = made("least_conn", [1] * 30)
    for full in range(1, 6):
        chosen = [picker.pick(0.0) for _ in range(30)]
        assert sorted(chosen) == list(range(30)), f"round {full}"
    picker.answered(17, 0.0, 0.005, True)
    assert picker.pick(0.01) == 17


@pytest.mark.parametrize(
    "name", [each.name for each in picker_list.listed() if each.by_in_flight and not each.by_key]
)
def test_our_pickers_avoid_a_server_that_fails_fast(name: str) -> None:
    picker, chosen = made(name, [1, 1, 1, 1]), Counter[int]()
    for number in range(2000):
        now_s = number * 0.01
        server = picker.pick(now_s)
        picker.answered(server, now_s, now_s + 0.001, server != 2)
        chosen[server] += 1
    assert chosen[2] < 40


@pytest.mark.parametrize(("name", "believed_after"), [("peak_ewma", 2), ("peakewma", 1)])
def test_a_peak_keeps_requests_away_for_a_while(name: str, believed_after: int) -> None:
    picker, chosen = made(name, [1] * 5), Counter[int]()
    for number in range(1000):
        now_s = number * 0.01
        server = picker.pick(now_s)
        picker.answered(server, now_s, now_s + (0.050 if server == 4 else 0.005), True)
        chosen[server] += 1
    # Ten seconds: 50 ms have faded to 18, still more than 5. The product's picker believes the second answer.
    assert chosen[4] == believed_after
    assert min(chosen[server] for server in range(4)) > 100


def test_a_server_that_was_slow_for_three_seconds_is_soon_used_again() -> None:
    slow = Server(late=(Late(start_s=30.0, end_s=33.0, by_s=0.3),))
    case = Case(
        servers=(slow, Server(), Server(), Server(), Server()),
        clients=OpenClients(rate_per_s=160),
        work=Work(cpu=Draw(mean_s=0.0022, shape="constant")),
        duration_s=42.0,
    )
    result = run(case, 1)
    asked, t_s = result.ticks.picks[:, 0], result.ticks.t_s
    # By its latency alone it had none in these seconds: 300 ms fade in half a minute.
    assert asked[t_s > 38.0].min() >= 24
    assert asked[(t_s > 32.0) & (t_s < 33.0)].sum() <= 2


def test_a_picker_s_clock_is_nginx_s_so_the_first_latency_that_is_confirmed_counts_in_full() -> None:
    # 40 ms are over 5 times 5 ms. Had the average begun at 0, they would have shown as 8.
    picker, chosen = made("vnswrr2", [1] * 5), Counter[int]()
    for number in range(100):
        now_s = number * 0.01
        server = picker.pick(now_s)
        picker.answered(server, now_s, now_s + (0.040 if server == 4 else 0.005), True)
        chosen[server] += 1
    assert chosen[4] == 2


# These have no weights; least_time always prefers an idle server of eight times the weight.
UNWEIGHTED = {*pickers.PROBING, "angie-leasttime", "linkerd-peakewma"}


@pytest.mark.parametrize("name", sorted({*pickers.NAMES} - UNWEIGHTED - {"leasttime"}))
def test_new_weights_are_taken_up(name: str) -> None:
    picker = made(name, [1, 1, 1])
    before = Counter(idle_picks(picker, 300))
    assert set(before) == {0, 1, 2}
    picker.update([1, 1, 8])
    after = Counter(idle_picks(picker, 2000))
    assert after[2] / 2000 == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("name", pickers.NAMES)
def test_a_server_that_is_out_of_service_gets_nothing_until_it_is_back(name: str) -> None:
    picker = made(name, [1, 1, 1, 1])
    idle_picks(picker, 20)
    picker.update([1, 0, 2, 1])
    assert 1 not in idle_picks(picker, 300)
    assert 1 not in {picker.pick(10.0) for _ in range(50)}
    picker.update([1, 1, 1, 1])
    # For ten seconds Peak EWMA penalizes the others for answers that never came.
    assert 1 in {picker.pick(20.0) for _ in range(300)}


def test_nginx_s_least_conn_takes_the_least_for_its_weight_and_turns_among_such() -> None:
    assert idle_picks(made("leastconn", [5, 1, 1]), 14) == [0, 0, 1, 0, 2, 0, 0] * 2
    picker = made("leastconn", [3, 1])
    chosen = Counter(picker.pick(0.0) for _ in range(40))
    assert chosen == {0: 30, 1: 10}
    for _ in range(4):
        picker.answered(1, 0.0, 1.0, True)
    assert [picker.pick(1.0) for _ in range(4)] == [1, 1, 1, 1]


def test_smooth_weighted_round_robin_is_nginx_s() -> None:
    assert idle_picks(made("wrr", [5, 1, 1]), 14) == [0, 0, 1, 0, 2, 0, 0] * 2


def test_random_follows_the_weights() -> None:
    counts = Counter(idle_picks(made("random", [1, 2, 7]), 20_000))
    assert [counts[server] / 20_000 for server in range(3)] == pytest.approx([0.1, 0.2, 0.7], abs=0.01)


def test_least_request_takes_the_less_loaded_of_two_draws() -> None:
    picker, active = made("lr", [1] * 10), [0] * 10
    for _ in range(1000):
        active[picker.pick(0.0)] += 1
    # Two choices: the fullest is above the mean by a few only; by one choice it would be some 20.
    assert max(active) - 100 <= 5


def test_least_request_with_weights_shares_by_weight_and_load() -> None:
    picker = made("lr", [1, 3])
    counts = Counter(idle_picks(picker, 400))
    assert [counts[0], counts[1]] == pytest.approx([100, 300], abs=2)
    loaded = made("lr", [1, 1, 2])
    for _ in range(60):
        loaded.pick(0.0)
    counts = Counter(idle_picks(loaded, 20))
    assert counts[2] > counts[0]


def test_peak_ewma_counts_what_is_pending_and_a_peak_fades() -> None:
    picker = PeakEwma(2, Random(1))
    picker.update([1, 1])
    # An unknown busy server costs more than an unknown idle one: one request each.
    assert {picker.pick(0.0) for _ in range(2)} == {0, 1}
    picker.answered(0, 0.0, 0.02, True)
    picker.answered(1, 0.0, 0.1, True)
    # 20 ms x (pending + 1) stays below 100 ms until four are pending.
    assert [picker.pick(0.1) for _ in range(4)] == [0, 0, 0, 0]
    for _ in range(4):
        picker.answered(0, 0.1, 0.12, True)
    # After 15 s the peak has faded to 22 ms, after 17 s to 18.
    assert picker.pick(14.98) == 0
    picker.answered(0, 14.98, 15.0, True)
    assert picker.pick(15.0) == 0
    picker.answered(0, 16.98, 17.0, True)
    assert picker.pick(17.0) == 1


def test_least_time_goes_by_twenties_of_ms_and_by_how_old_the_requests_in_flight_are() -> None:
    picker = LeastTime(2, Random(1))
    picker.update([1, 1])
    assert [picker.pick(0.0), picker.pick(0.0)] == [0, 1]
    picker.answered(0, 0.0, 0.021, True)
    picker.answered(1, 0.0, 0.059, True)
    # 40 ms x (active + 1) and 60 ms: 40 against 60, then 80 against 60.
    assert [picker.pick(0.1), picker.pick(0.1)] == [0, 1]
    picker.answered(1, 0.1, 0.159, True)
    # The first one's has been on its way for 3 s; the average of that is seen bit by bit.
    assert picker.pick(3.1) == 1
    # A failed answer is an answer: 0.95 x 59 + 0.05 x 0, rounded.
    picker.answered(1, 3.1, 3.1, False)
    assert picker._response_ms[1] == 56


def test_an_unknown_picker_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no picker 'swrr' in the model; choose one of: vnswrr, vnswrr2"):
        pickers.maker(case_of("swrr", 1), 1)


def p99_ms(**changes: Any) -> float:
    case = Case(
        servers=tuple(Server(speed=speed, baseline=speed) for speed in (2.0, 3.0, 4.0, 5.0) * 5),
        clients=OpenClients(rate_per_s=200.0),
        work=Work(cpu=Draw(mean_s=0.25)),
        duration_s=20.0,
        warmup_s=5.0,
        balancing=Balancing(law=None),
        balancers=16,
    )
    return float(np.percentile(run(replace(case, **changes), 1).latency_ms, 99))


def test_balancers_that_tell_each_other_what_is_in_flight_come_near_to_one() -> None:
    alone, apart = p99_ms(balancers=1), p99_ms()
    assert apart > 1.7 * alone
    assert p99_ms(exchange_s=0.005) < 1.25 * alone
    assert p99_ms(exchange_s=0.005, lost_exchanges=0.5) < 1.4 * alone
    # A second old it is worth nothing, and the pickers know.
    assert p99_ms(exchange_s=1.0) == apart


def test_one_balancer_alone_has_nobody_to_tell() -> None:
    assert p99_ms(balancers=1, exchange_s=0.005) == p99_ms(balancers=1)


def test_with_servers_that_report_requests_in_flight_balancers_come_nearer_to_one() -> None:
    assert p99_ms(balancers=4, in_flight_in_answers=True) < 0.9 * p99_ms(balancers=4)
    assert p99_ms(balancers=1, in_flight_in_answers=True) == p99_ms(balancers=1)


def test_with_known_costs_servers_that_do_one_request_at_a_time_answer_sooner() -> None:
    case = Case(
        servers=tuple(Server(speed=speed) for speed in (1.0, 2.0, 2.0, 3.0)),
        clients=OpenClients(rate_per_s=320),
        work=Work(cpu=Draw(mean_s=0.015, shape="lognormal", cv=4.0)),
        duration_s=36,
        warmup_s=12,
    )
    blind, priced = (
        [run(replace(case, balancing=Balancing(picker=picker, priced=priced)), 1) for picker in BY_COST]
        for priced in (False, True)
    )
    for without, by_cost in zip(blind, priced, strict=True):
        assert np.percentile(by_cost.latency_ms, 99) < 0.8 * np.percentile(without.latency_ms, 99)
        # The same requests came, with the same work.
        assert by_cost.arrived == without.arrived
