"""Another server at a known address, and servers whose agent is silent: which knowledge is kept?"""

import numpy as np
from steelyard_controller import laws

from testing.fluid_model import Servers

from .closed_loop import Loop

WARM = 120


def _loop(load: float = 0.5, **fields: object) -> Loop[Servers]:
    """Return a warm loop of three servers, 1 : 2 : 3."""
    servers = Servers(capacity=np.array([100.0, 200.0, 300.0]))
    loop = Loop(law=laws.create("steelyard"), servers=servers, demand=load * 600.0, **fields)  # type: ignore[arg-type]
    loop.ticks(WARM)
    return loop


def test_a_server_that_is_younger_than_what_is_known_of_it_is_another_one() -> None:
    loop = _loop(up_s=np.full(3, 1000.0))
    before = loop.memory().columns["requests"]
    loop.up_s = np.array([1000.0, 0.0, 1000.0])
    decision = loop.ticks(1)
    after = loop.memory().columns["requests"]
    assert after[1] < 0.02 * before[1], "known of the earlier server"
    assert (after[[0, 2]] > before[[0, 2]]).all(), "the others are the same"
    assert decision.columns["restarts"][1] == 0


def test_an_agent_that_restarts_beside_its_server_changes_nothing() -> None:
    loop, same = _loop(up_s=np.full(3, 1000.0)), _loop(up_s=np.full(3, 1000.0))
    loop.sampled = np.array([True, False, True])
    loop.ticks(4)
    loop.sampled = np.ones(3, dtype=np.bool_)
    loop.ticks(2), same.ticks(6)
    assert np.allclose(loop.shares[-1], same.shares[-1], rtol=0.02)
    assert loop.memory().columns["requests"][1] > 0.9 * same.memory().columns["requests"][1]


def test_two_agents_with_one_address_are_no_sequence_of_new_servers() -> None:
    loop = _loop(up_s=np.full(3, 1000.0))
    fewest = []
    for tick in range(60):
        age_s = 50.0 + tick if tick % 2 else 5000.0 + tick
        loop.up_s = np.array([1000.0, age_s, 1000.0])
        loop.ticks(1)
        fewest.append(loop.memory().columns["requests"][1])
    assert (np.diff(fewest) < 0).sum() == 1, "forgotten once, for the younger of the two"


def test_an_age_that_comes_late_is_not_another_server() -> None:
    loop = _loop(up_s=np.full(3, 1000.0))
    before = loop.memory().columns["requests"]
    loop.up_s = loop.up_s - np.array([0.0, 7.0, 0.0])
    loop.ticks(1)
    assert (loop.memory().columns["requests"] > before).all()


def test_quicker_answers_with_the_same_load_are_other_requests_and_no_other_server() -> None:
    loop = _loop()
    before = loop.memory().columns["restarts"]
    loop.late = np.array([0.1, 1.0, 1.0])
    loop.ticks(10)
    assert (loop.memory().columns["restarts"] == before).all()


def test_quicker_answers_and_less_load_are_another_server_at_once() -> None:
    loop = _loop()
    loop.servers.capacity = np.array([1000.0, 200.0, 300.0])
    assert loop.ticks(1).columns["restarted"][0] == 1.0


def test_a_server_whose_agent_falls_silent_is_remembered() -> None:
    loop = _loop()
    before = loop.share(0)
    loop.sampled = np.array([False, True, True])
    loop.ticks(60)
    assert abs(loop.share(0) / before - 1) < 0.02


def test_without_any_agent_the_baselines_stay() -> None:
    loop = _loop(sampled=np.zeros(1, dtype=np.bool_))
    assert np.allclose(loop.shares[-1], 1 / 3, atol=0.02)
