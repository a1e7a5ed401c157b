"""Whole runs: nothing is lost, the same seed is the same run, clients come when they should."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steelyard_simulator.model import (
    Background,
    Balancing,
    Case,
    Clients,
    Delays,
    Draw,
    Failing,
    OpenClients,
    PeriodicClients,
    RunResult,
    Server,
    Step,
    Work,
)
from steelyard_simulator.pickers import NAMES
from steelyard_simulator.run import run

MEASURED = ("cpu_s",)

servers = st.builds(
    Server,
    cores=st.integers(1, 3),
    speed=st.floats(0.5, 4.0),
    baseline=st.sampled_from([None, 1.0, 3.0]),
    latency=st.sampled_from([Draw(), Draw(mean_s=0.05, shape="constant")]),
    background=st.sampled_from([(), (Background(start_s=0.5, end_s=1.5, share=0.9),)]),
    steps=st.sampled_from([(), (Step(at_s=1.0, factor=0.3),)]),
    failing=st.sampled_from([(), (Failing(start_s=0.2, end_s=1.2, part=0.5),)]),
)
clients = st.one_of(
    st.builds(OpenClients, rate_per_s=st.floats(1, 300), arrivals=st.sampled_from(["poisson", "constant"])),
    st.builds(
        PeriodicClients, clients=st.integers(1, 5), interval_s=st.just(0.05), requests=st.integers(1, 50)
    ),
)
cases = st.builds(
    Case,
    servers=st.lists(servers, min_size=1, max_size=4).map(tuple),
    clients=clients,
    work=st.builds(Work, cpu=st.just(Draw(mean_s=0.02)), io=st.sampled_from([Draw(), Draw(mean_s=0.01)])),
    duration_s=st.just(2.5),
    warmup_s=st.sampled_from([0.0, 0.7]),
    balancing=st.builds(
        Balancing, law=st.sampled_from([None, "steelyard", "cswrr", "paper"]), picker=st.sampled_from(NAMES)
    ),
    balancers=st.integers(1, 3),
    tick_s=st.just(0.5),
    delays=st.sampled_from([Delays(), Delays(sample_s=0.7, fetch_s=0.6, silent_s=(0.6, 1.6))]),
)


@settings(max_examples=40, deadline=None)
@given(case=cases, seed=st.integers(0, 2**32))
def test_what_arrived_was_served_failed_or_is_in_flight(case: Case, seed: int) -> None:
    result = run(case, seed)
    assert result.arrived == result.served + result.failed + result.in_flight
    assert result.arrived == result.requests_per_server.sum()
    assert result.in_flight >= 0
    assert len(result.latency_ms) == len(result.sent_s) <= result.served
    if case.warmup_s == 0:
        assert len(result.latency_ms) == result.served
    assert (result.latency_ms >= 0).all()
    assert (result.sent_s >= case.warmup_s).all()
    assert (result.sent_s + result.latency_ms / 1000 <= case.duration_s + 1e-9).all()
    assert result.ticks.picks.sum() <= result.arrived
    assert result.ticks.weights.sum(axis=1) == pytest.approx(1.0)


def one(law: str | None = "steelyard", picker: str = "vnswrr2", of: Clients | None = None) -> Case:
    return Case(
        servers=(Server(cores=1), Server(cores=2), Server(cores=4)),
        clients=OpenClients(rate_per_s=400) if of is None else of,
        work=Work(cpu=Draw(mean_s=0.01)),
        duration_s=5.0,
        balancers=2,
        balancing=Balancing(law=law, picker=picker),
    )


def assert_same(a: RunResult, b: RunResult) -> None:
    for each in fields(RunResult):
        if each.name not in (*MEASURED, "ticks"):
            assert np.array_equal(getattr(a, each.name), getattr(b, each.name)), each.name
    for name in ("t_s", "weights", "picks", "utilization"):
        assert np.array_equal(getattr(a.ticks, name), getattr(b.ticks, name), equal_nan=True), name


@pytest.mark.parametrize("picker", NAMES)
def test_the_same_seed_is_the_same_run(picker: str) -> None:
    case = replace(one(picker=picker), duration_s=2.0)
    assert_same(run(case, 7), run(case, 7))
    assert not np.array_equal(run(case, 8).latency_ms, run(case, 7).latency_ms)


def test_a_case_survives_the_way_to_another_process() -> None:
    case = replace(one(), balancing=Balancing(law="steelyard", picker="vnswrr", parameters={"tau": 20.0}))
    sent: Case = pickle.loads(pickle.dumps(case))  # noqa: S301 - our own
    assert sent == case
    assert_same(run(replace(sent, duration_s=2.0), 1), run(replace(case, duration_s=2.0), 1))


def test_arrivals_do_not_depend_on_who_balances() -> None:
    results = [run(one(law, picker), 3) for law, picker in ((None, "wrr"), ("steelyard", "least_conn"))]
    assert results[0].arrived == results[1].arrived


def test_open_clients_send_at_their_rate_and_change_it_on_time() -> None:
    of = OpenClients(rate_per_s=100, arrivals="constant", changes=((2.0, 10.0), (3.0, 0.0), (4.0, 50.0)))
    result = run(one(None, "wrr", of), 1)
    per_second = np.bincount(result.sent_s.astype(int), minlength=5)
    assert per_second.tolist() == pytest.approx([100, 100, 10, 0, 50], abs=1)


def test_poisson_arrivals_are_poisson() -> None:
    of = OpenClients(rate_per_s=2000)
    sent_s = np.sort(run(replace(one(None, "random", of), work=Work()), 1).sent_s)
    gaps = np.diff(sent_s)
    assert gaps.mean() == pytest.approx(1 / 2000, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, rel=0.05)


def test_periodic_clients_send_all_their_requests_at_their_times() -> None:
    of = PeriodicClients(clients=3, interval_s=0.5, requests=4, stagger_s=0.1)
    result = run(one(None, "wrr", of), 1)
    times = [client * 0.1 + number * 0.5 for client in range(3) for number in range(4)]
    assert np.sort(result.sent_s) == pytest.approx(sorted(times))


def test_a_run_tells_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="no picker 'best' in the model; choose one of: vnswrr"):
        run(one(picker="best"), 1)
    with pytest.raises(ValueError, match="no law 'best'"):
        run(one(law="best"), 1)
    with pytest.raises(ValueError, match="duration_s > warmup_s"):
        replace(one(), warmup_s=99)
    with pytest.raises(ValueError, match="at least one"):
        replace(one(), servers=())
