"""The effect of a weight table on requests, on a real nginx."""

import os
import random
import signal
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from openresty.tests.backend import Backend
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration


def rows(*given: "tuple[Backend, int] | tuple[Backend, int, str]") -> list[tuple[str, str, int, str]]:
    return [(row[0].name, row[0].address, row[1], row[2] if len(row) > 2 else "up") for row in given]


def test_one_worker_follows_the_weights_exactly_over_a_whole_cycle(rig: "Rig") -> None:
    a, b, c = (rig.backend(name) for name in "abc")
    rig.publish(rows((a, 50), (b, 30), (c, 20)), generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    assert edge.shares(100) == {"a": 50, "b": 30, "c": 20}


def test_four_workers_follow_the_weights_to_within_a_cycle_each(rig: "Rig") -> None:
    a, b, c = (rig.backend(name) for name in "abc")
    rig.publish(rows((a, 5), (b, 3), (c, 2)), generation=1)
    edge = rig.edge(workers=4)
    edge.wait_for(1)
    shares = edge.shares(400)
    for name, due in {"a": 200, "b": 120, "c": 80}.items():
        # A run of SWRR's cycle is at most one request off per peer at either end.
        assert abs(shares[name] - due) <= 2 * edge.workers


@pytest.mark.parametrize("workers", [1, 4])
def test_a_new_table_is_served_without_a_reload(rig: "Rig", workers: int) -> None:
    a, b, c, moved = (rig.backend(name) for name in ("a", "b", "c", "moved"))
    rig.publish(rows((a, 1), (b, 1)), generation=1)
    edge = rig.edge(workers=workers)
    edge.wait_for(1)
    pids = edge.worker_pids()
    assert set(edge.shares(20 * workers)) == {"a", "b"}

    rig.publish([*rows((a, 1), (c, 1)), ("b", moved.address, 2, "up")], generation=2)
    edge.wait_for(2)
    assert set(edge.shares(20 * workers)) == {"a", "c", "moved"}

    rig.publish(rows((c, 7)), generation=3)
    edge.wait_for(3)
    assert set(edge.shares(10)) == {"c"}
    assert edge.worker_pids() == pids


def test_no_request_fails_while_peers_come_go_and_change(rig: "Rig") -> None:
    backends = [rig.backend(name) for name in "abcdef"]
    rig.publish(rows(*[(backend, 1) for backend in backends]), generation=1)
    edge = rig.edge(workers=4)
    edge.wait_for(1)
    draw = random.Random(2)
    with edge.under_load(4, pause_s=0.003) as statuses:
        for generation in range(2, 22):
            chosen = draw.sample(backends, draw.randint(2, 6))
            states = ["up", *(draw.choice(["up", "drain", "down", "backup"]) for _ in chosen[1:])]
            table = [(b, draw.randint(1, 500), state) for b, state in zip(chosen, states, strict=True)]
            rig.publish(rows(*table), generation=generation)
            edge.wait_for(generation)
            answered = len(statuses)
            rig.wait_until(lambda: len(statuses) > answered + 10, "requests go on")  # noqa: B023
    assert set(statuses) == {200}


def test_the_answer_names_its_server_by_id(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("server-1", a.address, 1, "up")], generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    assert edge.get().headers["X-Steelyard-Server"] == "server-1"


@pytest.mark.parametrize("workers", [1, 4])
def test_a_draining_server_gets_no_new_request_and_finishes_its_own(rig: "Rig", workers: int) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish(rows((a, 1)), generation=1)
    edge = rig.edge(workers=workers)
    edge.wait_for(1)
    answers: list[tuple[int, str]] = []
    a.delays_s["/slow"] = 1.5

    def slow() -> None:
        answer = edge.get("/slow")
        answers.append((answer.status, answer.server))

    thread = threading.Thread(target=slow)
    thread.start()
    rig.wait_until(lambda: a.received, "it is at the server")
    rig.publish(rows((a, 1, "drain"), (b, 1)), generation=2)
    edge.wait_for(2)
    assert edge.shares(30) == {"b": 30}
    thread.join()
    assert answers == [(200, "a")]


def test_a_backup_serves_when_nobody_else_can(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish(rows((a, 1), (b, 1, "backup")), generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    assert edge.shares(10) == {"a": 10}
    rig.publish(rows((a, 1, "down"), (b, 1, "backup")), generation=2)
    edge.wait_for(2)
    assert edge.shares(10) == {"b": 10}


def test_a_picker_of_a_later_version_falls_back_and_says_so(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish(rows((a, 1)), generation=1, picker="vnswrr3")
    edge = rig.edge()
    edge.wait_for(1)
    assert edge.shares(3) == {"a": 3}
    served = edge.upstream()
    assert (served["picker"], served["picker_asked"]) == ("vnswrr2", "vnswrr3")
    assert served["picker_error"].startswith("there is no picker vnswrr3; there are: ")
    assert edge.logged("there is no picker vnswrr3") == 1


def test_a_reload_keeps_the_table_while_memcached_is_dead(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish(rows((a, 3), (b, 1)), generation=7)
    edge = rig.edge(workers=2)
    edge.wait_for(7)
    rig.memcached.stop()
    edge.reload()
    assert set(edge.shares(8)) == {"a", "b"}
    assert edge.upstream()["generation"] == 7


def test_a_killed_worker_is_replaced_by_one_that_has_the_table(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish(rows((a, 1)), generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    rig.memcached.stop()
    (pid,) = edge.worker_pids()
    os.kill(pid, signal.SIGKILL)
    assert edge.shares(5) == {"a": 5}
