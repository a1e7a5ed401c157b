"""Prequal by its rule on pools made by hand, its probes of simulated servers, and what must always hold."""

from collections import Counter
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_simulator import pickers
from steelyard_simulator.model import Balancing, Case, Draw, OpenClients, Server, Work
from steelyard_simulator.pickers.prequal import (
    AGE_S,
    ANSWERS,
    C3,
    POLL_S,
    POOL,
    PROBES,
    Answer,
    Linear,
    Prequal,
    ProbedServers,
    Yarp,
    hot_cold,
    quantile,
    reuse_budget,
)
from steelyard_simulator.run import run


def best(pool: list[Answer], hot_from: float) -> Answer:
    return min(pool, key=lambda answer: hot_cold(answer, hot_from))


def worst(pool: list[Answer], hot_from: float) -> Answer:
    return max(pool, key=lambda answer: hot_cold(answer, hot_from))


def answers(*rif_and_ms: tuple[int, float]) -> list[Answer]:
    return [Answer(index, 0.0, rif, ms / 1000) for index, (rif, ms) in enumerate(rif_and_ms)]


@pytest.mark.parametrize(
    ("pool", "best_one", "worst_one"),
    [
        ([(3, 10), (0, 20), (1, 30)], 0, 2),  # all cold: by latency, whatever the RIF
        ([(4, 1), (9, 1), (3, 99)], 2, 1),  # a cold one before any hot one; the worst is the hottest
        ([(4, 1), (2, 98), (1, 99)], 1, 0),
        ([(6, 1), (5, 9), (7, 1)], 1, 2),  # all hot: by RIF, whatever the latency
    ],
)
def test_the_hot_cold_rule(pool: list[tuple[int, float]], best_one: int, worst_one: int) -> None:
    made = answers(*pool)
    assert best(made, 4).server == best_one
    assert worst(made, 4).server == worst_one


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), min_size=1, max_size=POOL), st.integers(0, 10)
)
def test_no_hot_one_is_picked_beside_a_cold_one_and_none_of_its_kind_is_better(
    pool: list[tuple[int, float]], hot_from: int
) -> None:
    made = answers(*pool)
    cold = [answer for answer in made if answer.rif < hot_from]
    hot = [answer for answer in made if answer.rif >= hot_from]
    chosen, removed = best(made, hot_from), worst(made, hot_from)
    if cold:
        assert chosen.rif < hot_from
        assert chosen.latency_s == min(answer.latency_s for answer in cold)
    else:
        assert chosen.rif == min(answer.rif for answer in hot)
    if hot:
        assert removed.rif == max(answer.rif for answer in hot)
    else:
        assert removed.latency_s == max(answer.latency_s for answer in cold)


@pytest.mark.parametrize(
    ("servers", "uses"),
    [
        (3, inf),
        (24, inf),
        (25, 25),
        (32, 4),
        (48, 2),
        (100, 2 / (0.84 * 3 - 1)),
        (10_000, 2 / (0.9984 * 3 - 1)),
    ],
)
def test_the_reuse_budget_is_the_paper_s(servers: int, uses: float) -> None:
    assert reuse_budget(servers) == pytest.approx(uses)


def test_an_answer_is_used_as_often_on_average_as_the_budget_says() -> None:
    servers = ProbedServers(48)
    picker = Prequal(Random(1), servers)
    picker.pick(0.0)
    assert {answer.uses for answer in picker._pool.values()} == {2}
    hundred, drawn = Prequal(Random(1), ProbedServers(100)), Counter[float]()
    for number in range(2000):
        hundred.pick(float(number * 2))
        drawn.update(answer.uses for answer in hundred._pool.values())
    # 1.316: two in 32 of 100.
    assert set(drawn) == {1, 2}
    assert drawn[2] / drawn.total() == pytest.approx(0.316, abs=0.02)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=ANSWERS))
def test_the_quantile_is_the_least_that_so_many_are_at_or_below(values: list[int]) -> None:
    found = quantile(values, 0.84)
    assert sum(value <= found for value in values) >= 0.84 * len(values)
    assert sum(value < found for value in values) < 0.84 * len(values)
    assert quantile([], 0.84) == inf


def test_a_server_answers_with_the_median_of_those_who_came_at_about_its_rif() -> None:
    servers = ProbedServers(2)
    assert servers.latency_s(0, 0.0) == 0.0
    for latency_ms in (10, 90, 20):
        servers.arrive(0, 1.0)
        servers.leave(0, 1.0, 1.0 + latency_ms / 1000, True)
    assert servers.latency_s(0, 1.1) == pytest.approx(0.02)
    for number in range(4):  # these arrive at 0, 1, 2, 3
        servers.arrive(0, 2.0 + number / 1000)
    for number in range(4):
        servers.leave(0, 2.0 + number / 1000, 2.1, number != 3)  # a failure is no measurement
    assert servers.in_flight == [0, 0]
    for rif, latency_ms in ((0, 55), (1, 99), (2, 98), (3, 98), (4, 98), (100, 98)):
        servers.in_flight[0] = rif
        assert servers.latency_s(0, 3.0) == pytest.approx(latency_ms / 1000), rif
    servers.in_flight[0] = 0
    assert servers.latency_s(0, 12.05) == pytest.approx(0.1)  # latencies from before 2.05 s are forgotten
    assert servers.latency_s(0, 13.0) == 0.0


def test_the_first_pick_is_random_and_the_next_goes_by_the_answers() -> None:
    firsts = {Prequal(Random(seed), ProbedServers(5)).pick(0.0) for seed in range(40)}
    assert firsts == set(range(5))
    servers = ProbedServers(3)
    picker = Prequal(Random(1), servers)
    busy = picker.pick(0.0)
    # It had the query in flight when it was asked.
    assert picker._pool[busy].rif == 1
    assert picker.pick(0.1) != busy


def test_an_answer_lasts_a_second() -> None:
    picker = Prequal(Random(1), ProbedServers(40))
    picker.pick(0.0)
    quick, slow = Answer(7, AGE_S, 0, 0.1), Answer(8, AGE_S, 0, 0.2)
    picker._pool |= {7: quick, 8: slow}
    assert picker.pick(2 * AGE_S) == 7
    assert (quick.rif, slow.rif) == (1, 0)  # the load balancer counts what it sent there
    picker.pick(10 * AGE_S)
    assert all(answer.at_s == 10 * AGE_S for answer in picker._pool.values())


def test_each_query_removes_the_oldest_and_the_worst_by_turns() -> None:
    picker = Prequal(Random(1), ProbedServers(1000))
    picker._pool = {
        answer.server: answer for answer in answers((0, 5), (0, 9), (0, 1), (0, 7), (0, 8), (0, 9.5))
    }
    picker._remove(5)
    assert list(picker._pool) == [1, 2, 3, 4, 5]
    picker._remove(5)
    assert list(picker._pool) == [1, 2, 3, 4]
    picker._remove(5)
    assert list(picker._pool) == [2, 3, 4]


@given(
    st.integers(1, 60),
    st.lists(st.tuples(st.sampled_from([0.0, 0.001, 0.3, 2.0]), st.booleans(), st.booleans()), max_size=80),
    st.integers(0, 5),
)
def test_a_pool_keeps_its_bounds_and_no_request_is_lost(
    servers: int, steps: list[tuple[float, bool, bool]], seed: int
) -> None:
    probed = ProbedServers(servers)
    balancers = [Prequal(Random(seed), probed), Prequal(Random(seed + 1), probed)]
    now_s, open_requests = 0.0, []
    for pause_s, second, answered in steps:
        now_s += pause_s
        picker = balancers[second]
        server = picker.pick(now_s)
        open_requests.append((picker, server, now_s))
        assert 0 <= server < servers
        assert min(PROBES, servers) <= len(picker._pool) <= min(POOL, servers)
        ages = [answer.at_s for answer in picker._pool.values()]
        assert ages == sorted(ages)
        assert all(answer.server == at and answer.uses >= 1 for at, answer in picker._pool.items())
        assert sum(probed.in_flight) == len(open_requests)
        if answered:
            picker, server, sent_s = open_requests.pop(0)
            picker.answered(server, sent_s, now_s, True)
    assert sum(probed.in_flight) == len(open_requests)
    assert min(probed.in_flight) >= 0


def test_load_balancers_see_each_other_s_requests() -> None:
    case = Case(
        servers=(Server(), Server()), clients=OpenClients(rate_per_s=1), work=Work(), duration_s=1,
        balancing=Balancing(picker="prequal"),
    )  # fmt: skip
    make = pickers.maker(case, 1)
    one, other = make(0), make(1)
    counts = Counter[int]()
    for number in range(100):
        counts[one.pick(number / 1000)] += 1
        counts[other.pick(number / 1000 + 0.0005)] += 1
    # Blind to each other they would be apart by some sqrt(200).
    assert abs(counts[0] - counts[1]) <= 8


def test_linear_weighs_a_request_in_flight_as_75_ms() -> None:
    linear = Linear(Random(1), ProbedServers(4))
    pool = answers((0, 160), (2, 5), (1, 80))
    assert min(pool, key=lambda answer: linear.rank(answer, 0)).server == 1
    assert max(pool, key=lambda answer: linear.rank(answer, 0)).server == 0


def test_c3_takes_all_load_balancers_to_have_as_many_there_as_it_has_itself() -> None:
    servers = ProbedServers(4)
    c3, other = C3(Random(1), servers), C3(Random(2), servers)
    for one in (c3, other):
        one.update([1] * 4)
    first = c3.pick(0.0)
    free = (first + 1) % 4
    ranks = [c3.rank(Answer(server, 0.0, 1, 0.1), 0)[1] for server in (first, free)]
    assert ranks == pytest.approx([0.1 * 4**3, 0.1 * 2**3])  # 1 + 2 own + 1 in flight, and 1 + 1
    assert other.rank(Answer(first, 0.0, 1, 0.1), 0)[1] == pytest.approx(0.1 * 2**3)
    c3.answered(first, 0.0, 0.1, True)
    assert c3.rank(Answer(first, 0.0, 1, 0.1), 0)[1] == pytest.approx(0.1 * 2**3)
    assert sum(servers.in_flight) == 0


def test_yarp_goes_by_what_it_polled() -> None:
    servers = ProbedServers(2)
    yarp = Yarp(Random(1), servers)
    yarp.update([1, 1])
    servers.in_flight[0] = 9
    assert yarp.pick(POLL_S) == 1
    servers.in_flight[1] = 99
    assert yarp.pick(1.4 * POLL_S) == 1  # not polled anew
    assert yarp.pick(2 * POLL_S) == 0
    yarp.update([0, 1])
    assert yarp.pick(2 * POLL_S) == 1  # there is no second one


@pytest.mark.parametrize("picker", ["linear", "c3", "yarp"])
def test_the_paper_s_other_rules_run(picker: str) -> None:
    case = Case(
        servers=(Server(),) * 5, clients=OpenClients(rate_per_s=30.0), work=Work(cpu=Draw(mean_s=0.1)),
        duration_s=20.0, balancing=Balancing(law=None, picker=picker), balancers=3,
    )  # fmt: skip
    result = run(case, 1)
    assert result.arrived == result.served + result.in_flight
    assert min(result.requests_per_server) > 0.1 * result.arrived
