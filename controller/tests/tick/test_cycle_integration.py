"""The loop on a real Memcached and a real Redis, a tick at a time."""

import asyncio
import functools
import logging
import math
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import pytest
import redis as plain
from pymemcache.client.base import Client
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Blend, Peer, Upstream
from steelyard_controller.dns.peer_addresses import PeerAddresses
from steelyard_controller.dns.resolver import Resolver
from steelyard_controller.laws.blend import Due, StepResult, step_upstreams
from steelyard_controller.store.interface import LeaseLost
from steelyard_controller.tick import batch
from steelyard_protocol import announced, weight_table, wire
from steelyard_protocol.weight_table import WeightTable

from testing.daemons import Daemon
from testing.hostile_servers import dripping
from testing.waiting import PATIENCE_S

from ..examples import report, sample
from ..session import Session, session

pytestmark = pytest.mark.integration

WEB = Upstream(peers=[Peer(id=name, address=f"10.0.0.{n}:80", baseline=1) for n, name in enumerate("abc", 1)])
NOW_S = 1_790_000_000


def _run(
    memcached: Daemon,
    redis: Daemon,
    steps: Callable[[Session], Awaitable[None]],
    *,
    lease_s: float = 60.0,
    servers: str | None = None,
    **changes: object,
) -> None:
    async def run() -> None:
        file = {"web": WEB.model_copy(update=changes)}
        async with session(memcached, redis, file=file, servers=servers, unix_s=NOW_S, lease_s=lease_s) as it:
            await it.lead()
            await steps(it)

    asyncio.run(run())


def _published(memcached: Daemon) -> WeightTable:
    client = Client(("127.0.0.1", memcached.port))
    value = client.get(wire.weights_key("web"))
    client.close()
    table = weight_table.decode(value)
    assert isinstance(table, WeightTable), table
    return table


def _put(memcached: Daemon, key: str, value: bytes) -> None:
    client = Client(("127.0.0.1", memcached.port))
    client.set(key, value, noreply=False)
    client.close()


async def _busy_tick(it: Session, memcached: Daemon, tick: int, *, cpu_of_a: float) -> None:
    for peer in "abc":
        cpu = cpu_of_a if peer == "a" else 0.3
        _put(memcached, wire.sample_key("web", peer), sample(peer, seq=tick, cpu=cpu))
    _put(
        memcached,
        wire.traffic_key("web", "edge-1"),
        report(seq=tick, a=(100, 0, 1, 5.0), b=(100, 0, 1, 5.0), c=(100, 0, 1, 5.0)),
    )
    await it.tick(float(tick))


def test_a_load_balancer_that_announces_itself_is_read_at_the_next_tick(
    memcached: Daemon, redis_server: Daemon
) -> None:
    async def steps(it: Session) -> None:
        await it.tick(1.0)
        _put(memcached, wire.traffic_key("web", "edge-2"), report("edge-2", seq=1, a=(7, 0, 1, 5.0)))
        _put(memcached, wire.ANNOUNCED_KEY, announced.lines(["web", "shop"], "edge-2") + b"garbage")
        outcome = await it.tick(2.0)
        assert outcome.snapshot.completed[0] == 7
        assert _published(memcached).reporters == ("edge-1", "edge-2")

    _run(memcached, redis_server, steps)


def test_a_tick_publishes_a_table(memcached: Daemon, redis_server: Daemon) -> None:
    async def steps(it: Session) -> None:
        await it.tick(1.0)
        assert _published(memcached) == it.outcome.table
        await it.tick(2.0)

    _run(memcached, redis_server, steps)
    table = _published(memcached)
    assert table.order == (NOW_S, 2)
    assert [peer.weight for peer in table.peers] == [peer.baseline for peer in table.peers] == [334, 333, 333]


def test_a_tick_asks_memcached_to_read_all_at_once_and_to_replace_the_table(
    memcached: Daemon, redis_server: Daemon
) -> None:
    async def steps(it: Session) -> None:
        await it.tick(1.0)
        before = len(it.asked)
        await it.tick(2.0)
        assert len(it.asked) - before == 2

    _run(memcached, redis_server, steps)


def test_a_busy_server_gets_less_and_the_others_more(memcached: Daemon, redis_server: Daemon) -> None:
    async def steps(it: Session) -> None:
        for tick in range(1, 12):
            await _busy_tick(it, memcached, tick, cpu_of_a=0.9)

    _run(memcached, redis_server, steps)
    a, b, c = (peer.weight for peer in _published(memcached).peers)
    assert a * 2 < b
    assert abs(b - c) <= 1


def test_garbage_moves_no_weight_and_is_told_once(
    memcached: Daemon, redis_server: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def steps(it: Session) -> None:
        for tick in range(1, 7):
            await _busy_tick(it, memcached, tick, cpu_of_a=0.9)
        before = [peer.weight for peer in _published(memcached).peers]
        caplog.clear()
        for tick, value in enumerate(
            [b"garbage", b"garbage", b'{"v":1,"upstream":NaN}', b"0" * 1_000_000], 7
        ):
            for peer in "abc":
                _put(memcached, wire.sample_key("web", peer), value)
            await it.tick(float(tick))
        after = [peer.weight for peer in _published(memcached).peers]
        assert before == after
        assert it.outcome.inbox.refused == {"not_json": 9, "too_large": 3}

    _run(memcached, redis_server, steps)
    assert len([line for line in caplog.messages if "refused" in line]) == 6


def test_a_restart_goes_on_in_order_with_the_laws_memory(memcached: Daemon, redis_server: Daemon) -> None:
    async def load(it: Session) -> None:
        for tick in range(1, 12):
            await _busy_tick(it, memcached, tick, cpu_of_a=0.9)

    async def once(it: Session) -> None:
        await it.tick(1.0)

    _run(memcached, redis_server, load)
    before = _published(memcached)
    _run(memcached, redis_server, once)
    after = _published(memcached)
    assert after.order == (before.term + 1, before.generation + 1)
    old, new = before.peers[0].weight, after.peers[0].weight
    assert abs(new - old) < 0.1 * old


def test_a_wiped_redis_does_not_send_the_order_backwards(memcached: Daemon, redis_server: Daemon) -> None:
    async def once(it: Session) -> None:
        await it.tick(1.0)

    _run(memcached, redis_server, once)
    before = _published(memcached)
    redis_server.kill()
    redis_server.start()
    # The tables show that another controller led, so this one waits for it.
    _run(memcached, redis_server, once, lease_s=1.5)
    assert _published(memcached).order > before.order


def test_shadows_learn_and_move_nothing(memcached: Daemon, redis_server: Daemon) -> None:
    async def steps(it: Session) -> None:
        for tick in range(1, 12):
            await _busy_tick(it, memcached, tick, cpu_of_a=0.9)
        shadow = it.outcome.shadows["steelyard"]
        assert shadow.weights[0] * 2 < shadow.weights[1]

    _run(memcached, redis_server, steps, law="static", shadows={"steelyard": {}})
    assert [peer.weight for peer in _published(memcached).peers] == [334, 333, 333]


@pytest.mark.parametrize(("percent", "share"), [(0, 1.0), (50, 0.7), (100, 0.4)])
def test_a_migration_is_walked_up_by_percent(
    memcached: Daemon, redis_server: Daemon, percent: float, share: float
) -> None:
    async def steps(it: Session) -> None:
        for tick in range(1, 12):
            await _busy_tick(it, memcached, tick, cpu_of_a=0.9)

    _run(memcached, redis_server, steps, law="static", blend=Blend(law="steelyard", percent=percent))
    table = _published(memcached)
    assert table.peers[0].weight == pytest.approx(share * table.peers[0].baseline, rel=0.1)


def test_memory_of_another_law_is_not_taken_up(memcached: Daemon, redis_server: Daemon) -> None:
    async def once(it: Session) -> None:
        await it.tick(1.0)

    _run(memcached, redis_server, once, law="steelyard")
    _run(memcached, redis_server, once, law="static")
    assert _published(memcached).law == "static"


def test_without_redis_the_loop_goes_on_and_says_so(memcached: Daemon, redis_server: Daemon) -> None:
    async def steps(it: Session) -> None:
        await it.tick(1.0)
        redis_server.kill()
        outcome = await it.tick(2.0)
        assert [fault.split(":")[0] for fault in it.service.degraded] == ["saving"]
        assert outcome.degraded == ()
        assert _published(memcached).generation == 2
        redis_server.start()
        await it.lead()
        await it.tick(3.0)
        assert it.service.degraded == ()

    _run(memcached, redis_server, steps, lease_s=5.0)  # A wiped store is waited for this long.


def test_without_memcached_the_loop_goes_on_and_refills_it(memcached: Daemon, redis_server: Daemon) -> None:
    async def steps(it: Session) -> None:
        await it.tick(1.0)
        memcached.kill()
        outcome = await it.tick(2.0)
        assert [line.split(": ")[0] for line in it.service.degraded] == [f"memcached {memcached.address}"]
        assert outcome.degraded == ()
        memcached.start()
        assert (await it.tick(3.0)).degraded == it.service.degraded == ()
        assert _published(memcached).generation == 3

    _run(memcached, redis_server, steps)


def test_where_one_memcached_of_two_drips_the_samples_of_the_other_are_used(
    memcached: Daemon, redis_server: Daemon
) -> None:
    async def steps(it: Session) -> None:
        for tick in range(1, 12):
            await _busy_tick(it, memcached, tick, cpu_of_a=0.9)
            assert set(it.outcome.inbox.samples) == set("abc")
            assert it.service.degraded == (f"memcached {hostile.address}: timed out",)
            assert it.outcome.degraded == ()

    with dripping() as hostile:
        _run(memcached, redis_server, steps, servers=f"{hostile.address},{memcached.address}")
        assert hostile.is_dripping
    a, b, c = (peer.weight for peer in _published(memcached).peers)
    assert a * 2 < b
    assert abs(b - c) <= 1


def test_what_is_found_after_a_pause_is_kept_but_teaches_nothing(
    memcached: Daemon, redis_server: Daemon
) -> None:
    async def steps(it: Session) -> None:
        await _busy_tick(it, memcached, 1, cpu_of_a=0.9)
        assert set(it.outcome.inbox.samples) == set("abc")
        assert math.isnan(it.outcome.snapshot.completed[0])
        await _busy_tick(it, memcached, 2, cpu_of_a=0.9)
        assert it.outcome.snapshot.completed.tolist() == [100, 100, 100]
        await _busy_tick(it, memcached, 8, cpu_of_a=0.9)
        assert math.isnan(it.outcome.snapshot.completed[0])
        assert np.isnan(it.outcome.snapshot.utilization).all()

    _run(memcached, redis_server, steps)


def test_the_reports_of_all_load_balancers_are_summed(memcached: Daemon, redis_server: Daemon) -> None:
    async def steps(it: Session) -> None:
        for tick in (1, 2):
            for lb, count in (("edge-1", 100), ("edge-2", 50)):
                row = (count, 1, 2, 5.0)
                _put(memcached, wire.traffic_key("web", lb), report(lb, seq=tick, a=row, b=row, c=row))
            await it.tick(float(tick))
        snapshot = it.outcome.snapshot
        assert snapshot.completed.tolist() == [150, 150, 150]
        assert snapshot.failed.tolist() == [2, 2, 2]
        assert snapshot.in_flight.tolist() == [4, 4, 4]

    _run(memcached, redis_server, steps, load_balancers=["edge-1", "edge-2"])


def test_a_table_of_a_higher_term_ends_this_one_before_anything_is_written(
    memcached: Daemon, redis_server: Daemon
) -> None:
    other = WeightTable(
        upstream="web", term=NOW_S + 5, generation=1, issued_at_ms=0, law="static", picker="x", peers=()
    )

    async def steps(it: Session) -> None:
        await it.tick(1.0)
        _put(memcached, wire.weights_key("web"), weight_table.encode(other))
        with pytest.raises(LeaseLost, match=f"Memcached holds a table of term {NOW_S + 5}"):
            await it.tick(2.0)
        assert _published(memcached) == other

    _run(memcached, redis_server, steps)


def test_an_upstream_that_is_declared_again_goes_on_above_its_last_generation(
    memcached: Daemon, redis_server: Daemon
) -> None:
    async def steps(it: Session) -> None:
        for tick in (1, 2, 3):
            await it.tick(float(tick))
        declaration = it.loop.cycles["web"].declaration
        it.loop.forget("web")
        it.loop.follow("web", declaration)
        await it.tick(4.0)
        assert _published(memcached).order == (NOW_S, 4)

    _run(memcached, redis_server, steps)


def test_an_upstream_whose_tick_fails_stops_no_other_and_goes_on_when_it_can(
    memcached: Daemon, redis_server: Daemon, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def steps(it: Session) -> None:
        it.loop.follow("api", Declaration(upstream=WEB))
        await it.tick(1.0)
        web, api = it.loop.cycles["web"], it.loop.cycles["api"]
        monkeypatch.setattr(web, "observe", lambda *_, **__: 1 / 0)
        for tick in (2.0, 3.0):
            await it.tick(tick)
        assert (web.generation, api.generation, web.failures, api.failures) == (1, 3, 2, 0)
        assert _published(memcached).generation == 1  # the last table holds
        assert [line for line in it.outcome.degraded if line.startswith("tick: it fails (ZeroDivisionError")]
        assert api.outcome is not None
        assert api.outcome.degraded == ()
        assert [record.message for record in caplog.records if record.exc_info] == ["web: a tick failed"]
        monkeypatch.undo()
        assert (await it.tick(4.0)).degraded == ()
        assert web.generation == 2

    _run(memcached, redis_server, steps)


def test_laws_that_cannot_step_together_are_a_fault(
    memcached: Daemon, redis_server: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(due: Sequence[Due]) -> list[StepResult]:
        if len(due) > 1:
            raise ValueError("shapes differ")
        return step_upstreams(due)

    async def steps(it: Session) -> None:
        it.loop.follow("api", Declaration(upstream=WEB))
        monkeypatch.setattr(batch, "advance", functools.partial(batch.advance, step=step))
        assert (await it.tick(1.0)).degraded == ()
        assert [line for line in it.service.degraded if line.startswith("laws: 2 upstreams step in parts")]
        monkeypatch.undo()
        await it.tick(2.0)
        assert it.service.degraded == ()

    _run(memcached, redis_server, steps)


@pytest.mark.parametrize("kept_by", ["memcached", "redis"])
def test_a_new_leader_without_dns_keeps_the_addresses_that_its_predecessor_had(
    memcached: Daemon, redis_server: Daemon, kept_by: str
) -> None:
    named = Upstream(peers=[Peer(id="a", address="alpha.test:80"), Peer(id="b", address="beta.test:81")])
    resolved = {"web": {"a": "10.0.0.1:80", "b": "10.0.0.2:81"}}

    async def away(_: str) -> list[str]:
        raise OSError("the resolver is away")

    async def run() -> None:
        async with session(memcached, redis_server, file={"web": named}, unix_s=NOW_S) as first:
            await first.lead()
            lease = first.election.lease
            assert lease is not None
            for tick in (1.0, 2.0):
                await first.loop.tick(tick, lease=lease, certain=lambda: True, addresses=resolved)
        if kept_by == "redis":
            client = Client(("127.0.0.1", memcached.port))
            client.flush_all(noreply=False)
            client.close()
        else:
            plain.Redis(port=redis_server.port).delete("steelyard:1:state:web")
        async with session(memcached, redis_server, file={"web": named}, unix_s=NOW_S, id="b") as second:
            await second.lead()
            cycles = second.loop.cycles
            peer_addresses = PeerAddresses(
                Resolver(away), faults_of=second.loop.faults_of, clock=asyncio.get_running_loop().time
            )
            async with asyncio.timeout(PATIENCE_S):
                while "name beta.test" not in second.loop.faults_of("web").now:
                    assert await peer_addresses.addresses(cycles) == resolved
                    await asyncio.sleep(0)
            lease = second.election.lease
            assert lease is not None
            await second.loop.tick(
                3.0, lease=lease, certain=lambda: True, addresses=await peer_addresses.addresses(cycles)
            )
            await peer_addresses.close()
            assert [peer.address for peer in _published(memcached).peers] == ["10.0.0.1:80", "10.0.0.2:81"]
            assert "its last address is kept" in str(second.loop.faults_of("web").now["name alpha.test"])

    asyncio.run(run())
