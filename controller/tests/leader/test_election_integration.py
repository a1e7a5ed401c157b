"""Two and three controllers on a real Redis and Memcached: one writer at any time, under all faults.

Every weight table goes through a recorder, which knows its writer and the order of the writes.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.daemons import Daemon
from testing.waiting import wait_until

from ..controllers import Cluster, Controller, cluster, has_one_writer, learnt, moved
from ..proxies import Write

pytestmark = pytest.mark.integration

# A standby asks three times a lease, so this many requests take two leases.
QUESTIONS = 6


@pytest.fixture
def them(memcached: Daemon, redis_server: Daemon, tmp_path: Path) -> Iterator[Cluster]:
    with cluster(memcached, redis_server, tmp_path) as controllers:
        yield controllers


def questions(controller: Controller) -> int:
    """Return the number of times that a controller asked for the leader."""
    return bytes(controller.redis.sent).count(b"$3\r\nGET\r\n$17\r\nsteelyard:1:lease")


def handover(writes: list[Write]) -> int:
    """Return the place of the old leader's last table."""
    return max(n for n, write in enumerate(writes) if write.writer != writes[-1].writer)


def test_the_next_one_takes_over_and_the_weights_stay(them: Cluster) -> None:
    left = [them.controller(name) for name in "abc"]
    leader = them.leads(*left)
    learnt(them, leader)
    for end in (signal.SIGKILL, signal.SIGTERM):
        left.remove(leader)
        before = max(questions(each) for each in left)
        leader.signal(end)
        successor = them.leads(*left)
        assert max(questions(each) for each in left) - before <= QUESTIONS
        them.ticks(10, successor)
        writes = them.writes.stored
        has_one_writer(writes)
        assert moved(writes[handover(writes) :]) < 0.05
        assert leader.says("released") == (end == signal.SIGTERM)
        leader = successor


def test_a_leader_that_is_paused_and_wakes_publishes_nothing(them: Cluster) -> None:
    controllers = [them.controller(name) for name in "abc"]
    leader = them.leads(*controllers)
    others = [each for each in controllers if each is not leader]
    them.ticks(3, leader)
    leader.signal(signal.SIGSTOP)
    successor = them.leads(*others)
    them.ticks(3, successor)
    before = len(them.writes.of(leader.id))
    leader.signal(signal.SIGCONT)
    wait_until(lambda: (leader.get("/v1/service") or {}).get("role") == "standby", "standing by")
    them.ticks(5, successor)
    assert len(them.writes.of(leader.id)) == before
    has_one_writer(them.writes.stored)
    # And once more, from the new leader.
    successor.signal(signal.SIGKILL)
    them.ticks(3, them.leads(*(each for each in controllers if each is not successor)))
    has_one_writer(them.writes.stored)


def test_with_redis_cut_off_from_the_leader_alone_it_stops_when_another_leads(them: Cluster) -> None:
    a = them.controller("a")
    them.leads(a)
    b = them.controller("b")
    a.redis.cut()
    them.leads(b)
    wait_until(lambda: a.says("Memcached holds a "), "stepping down")
    them.ticks(5, b)
    has_one_writer(them.writes.stored)
    # It read before it wrote: no table of a was offered once b's was there.
    first = next(n for n, write in enumerate(them.writes.all) if write.writer == "b" and write.stored)
    assert sum(write.stored for write in them.writes.all[first:] if write.writer == "a") == 0
    a.redis.mend()
    wait_until(lambda: (a.get("/v1/service") or {}).get("role") == "standby", "standing by")


def test_a_redis_that_hangs_stops_no_tick(them: Cluster) -> None:
    a = them.controller("a")
    them.leads(a)
    a.redis.hang()
    wait_until(lambda: (a.get("/v1/service") or {}).get("degraded"), "a fault")
    generation = them.table().generation
    them.ticks(20, a)
    assert them.table().generation >= generation + 20
    a.redis.mend()
    wait_until(lambda: (a.get("/v1/service") or {}).get("degraded") == [], "mending")
    has_one_writer(them.writes.stored)


def test_a_wiped_redis_gets_everything_back_from_the_leader(them: Cluster, redis_server: Daemon) -> None:
    a = them.controller("a")
    them.leads(a)
    b = them.controller("b", config="{}")
    learnt(them, a)
    term = them.table().term
    redis_server.kill()
    wait_until(lambda: (a.get("/v1/service") or {}).get("degraded"), "a fault")
    them.ticks(8, a)
    redis_server.start()
    wait_until(lambda: them.table().term > term, "a new term")
    them.ticks(5, a)
    writes = them.writes.stored
    assert {write.writer for write in writes} == {"a"}
    has_one_writer(writes)
    assert moved([write for write in writes if write.table.term > term]) < 0.05
    # b itself declared nothing: its upstreams come from a's restored declarations.
    a.signal(signal.SIGKILL)
    them.leads(b)
    them.ticks(5, b)
    writes = them.writes.stored
    has_one_writer(writes)
    assert moved(writes[handover(writes) :]) < 0.05


def test_memory_leads_alone_and_says_so(them: Cluster) -> None:
    a = them.controller("a", "--state-url", "memory://")
    them.ticks(3, a)
    service = a.get("/v1/service")
    assert (service["role"], service["state"]) == ("leader", "memory")
    assert a.says("a restart forgets it")
