"""The service on a real Memcached and a real Redis: changes, restarts, and failing stores."""

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import redis as plain
from pymemcache.client.base import Client
from steelyard_controller.declarations import declaration as declarations
from steelyard_controller.declarations.audit import Author
from steelyard_controller.declarations.declaration import (
    Declaration,
    Unknown,
    with_patch,
    with_peer,
    without_peer,
)
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.leader.takeover import DECLARATIONS_PER_REQUEST
from steelyard_controller.service import PUT_BACK, Conflict, NotLeading, NotStored, Service
from steelyard_controller.store.interface import Unavailable
from steelyard_controller.store.memory_store import MemoryStore
from steelyard_protocol import wire

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S

from .proxies import Proxy, closing
from .session import session

pytestmark = pytest.mark.integration

WEB = Upstream.model_validate(
    {"peers": [{"id": name, "address": f"10.0.0.{n}:80"} for n, name in enumerate("abc", 1)]}
)
API = Upstream(peers=[Peer(id="x", address="10.0.1.1:80")])
DRAIN = {"state": "drain"}

Steps = Callable[[Service], Awaitable[None]]


async def until(look: Callable[[], Any]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE_S):
        while not look():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def running(memcached: Daemon, redis: Daemon, **options: Any) -> AsyncIterator[Service]:
    """Yield a running service, and end it as SIGTERM does."""
    given: dict[str, Any] = {"file": {"web": WEB}, "tick_s": 0.1, "lease_s": 1.0} | options
    async with session(memcached, redis, **given) as it:
        with contextlib.suppress(Exception):
            await it.service.open()
        task = asyncio.create_task(it.service.run())
        try:
            yield it.service
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def leading(memcached: Daemon, redis: Daemon, steps: Steps, **options: Any) -> None:
    """Run steps on a service that leads."""

    async def run() -> None:
        # A busy machine may take more than a second from a lease.
        async with running(memcached, redis, **({"lease_s": 10.0} | options)) as service:
            await until(lambda: service.role == "leader")
            await steps(service)

    asyncio.run(run())


def stored(redis: Daemon) -> dict[str, Declaration]:
    stored: Any = plain.Redis(port=redis.port).hgetall("steelyard:1:declarations")
    read = {name.decode(): declarations.decode(value) for name, value in stored.items()}
    assert all(isinstance(each, Declaration) for each in read.values())
    return read  # type: ignore[return-value]


def held(service: Service) -> dict[str, Declaration]:
    return {name: view.declaration for name, view in service.views.items()}


def generation(memcached: Daemon, upstream: str) -> tuple[int, int]:
    client = Client(("127.0.0.1", memcached.port))
    document = json.loads(client.get(wire.weights_key(upstream)))
    client.close()
    return document["term"], document["generation"]


def edit(peer: str, **patch: object) -> Callable[[Upstream | None], Upstream]:
    def made(upstream: Upstream | None) -> Upstream:
        assert upstream is not None
        return with_patch(upstream, peer, patch)

    return made


def test_changes_at_the_same_time_all_count(memcached: Daemon, redis_server: Daemon) -> None:
    async def steps(service: Service) -> None:
        def adding(number: int) -> Callable[[Upstream | None], Upstream]:
            peer = Peer(id=f"new-{number}", address="10.0.9.9:80")
            return lambda upstream: with_peer(upstream, peer)  # type: ignore[arg-type]

        made = await asyncio.gather(*(service.change("web", adding(number)) for number in range(20)))
        assert sorted(each.revision for each in made if each) == list(range(2, 22))
        assert len(service.views["web"].declaration.upstream.peers) == 23
        assert stored(redis_server) == held(service)

    leading(memcached, redis_server, steps)


def test_the_log_has_each_change_once_and_who_asked_for_it(
    memcached: Daemon, redis_server: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def steps(service: Service) -> None:
        admin = Author(name="admin", kind="token", address="10.0.0.9")
        await service.change("web", edit("a", **DRAIN), by=admin)
        await service.change("web", edit("a", **DRAIN), by=admin)

    leading(memcached, redis_server, steps)
    lines = [record for record in caplog.records if getattr(record, "event", None) == "declared"]
    assert [(vars(line)["by"], line.getMessage()) for line in lines] == [
        ("admin at 10.0.0.9", "web: a: state up -> drain")
    ]


def test_of_two_that_change_the_same_revision_one_is_told(memcached: Daemon, redis_server: Daemon) -> None:
    async def steps(service: Service) -> None:
        answers = await asyncio.gather(
            service.change("web", edit("a", **DRAIN), revision=1),
            service.change("web", edit("b", **DRAIN), revision=1),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [Declaration, Conflict]
        assert [peer.state for peer in held(service)["web"].upstream.peers] == ["drain", "up", "up"]

    leading(memcached, redis_server, steps)


def test_a_change_that_is_refused_changes_nothing(memcached: Daemon, redis_server: Daemon) -> None:
    many = Upstream(peers=[Peer(id="p" * 50 + str(n), address="10.0.0.1:80") for n in range(80_000)])

    async def steps(service: Service) -> None:
        before = stored(redis_server)
        for change, error in (
            (service.change("nonesuch", lambda _: None), Unknown),
            (service.change("web", lambda upstream: without_peer(upstream, "z")), Unknown),  # type: ignore[arg-type]
            (service.change("web", edit("a", state="upp")), ValueError),
            (service.change("web", lambda _: many), ValueError),
            (service.change("web", lambda _: None), ValueError),  # The file would declare it again.
            (service.change("new", lambda _: API, revision=3), Conflict),
        ):
            with pytest.raises(error):
                await change
        same = await service.change("web", edit("a", state="up"))
        assert same == before["web"]
        assert stored(redis_server) == held(service) == before

    leading(memcached, redis_server, steps)


def test_what_rest_made_survives_a_restart_and_an_edit_of_the_file(
    memcached: Daemon, redis_server: Daemon
) -> None:
    async def first(service: Service) -> None:
        await service.change("api", lambda _: API)
        await service.change("web", edit("a", **DRAIN))

    async def second(service: Service) -> None:
        web = held(service)["web"]
        assert (web.upstream.peers[0].state, web.upstream.law) == ("drain", "static")
        assert held(service)["api"].upstream == API
        assert stored(redis_server) == held(service)

    leading(memcached, redis_server, first)
    leading(
        memcached,
        redis_server,
        second,
        file={"web": Upstream.model_validate({**WEB.model_dump(exclude_unset=True), "law": "static"})},
    )


def test_a_drain_survives_a_fail_over(memcached: Daemon, redis_server: Daemon) -> None:
    async def run() -> None:
        async with contextlib.AsyncExitStack() as of_leader, contextlib.AsyncExitStack() as of_standby:
            leader = await of_leader.enter_async_context(running(memcached, redis_server, id="a"))
            await until(lambda: leader.role == "leader")
            others = running(memcached, redis_server, id="b", file={})
            standby = await of_standby.enter_async_context(others)
            await until(lambda: standby.role == "standby")
            with pytest.raises(NotLeading):
                await standby.change("web", edit("a", **DRAIN))
            await leader.change("web", edit("a", **DRAIN))
            await of_leader.aclose()
            await until(lambda: standby.role == "leader")
            assert held(standby)["web"].upstream.peers[0].state == "drain"

    asyncio.run(run())


def test_changes_and_deletions_in_the_midst_of_ticks_leave_nothing_behind(
    memcached: Daemon, redis_server: Daemon
) -> None:
    async def steps(service: Service) -> None:
        last = (0, 0)
        for _ in range(5):
            await service.change("api", lambda _: API)
            await until(lambda: service.views["api"].outcome is not None)
            for number in range(10):
                await service.change("api", edit("x", baseline=number + 1))
                await asyncio.sleep(0.01)
            assert generation(memcached, "api") > last
            last = generation(memcached, "api")
            await service.change("api", lambda _: None)
            assert "api" not in service.views
        done = service.views["web"].generation
        await until(lambda: service.views["web"].generation > done + 2)
        assert plain.Redis(port=redis_server.port).keys("*api*") == []
        assert stored(redis_server) == held(service)

    leading(memcached, redis_server, steps)


def test_without_redis_nothing_is_changed_and_ticks_go_on(memcached: Daemon, redis_server: Daemon) -> None:
    async def steps(service: Service) -> None:
        await until(lambda: service.views["web"].outcome is not None)
        await service.change("api", lambda _: API)
        before = held(service)
        redis_server.kill()
        with pytest.raises(NotStored, match="the state store is unreachable"):
            await service.change("web", edit("a", **DRAIN))
        with pytest.raises(NotStored):
            await service.change("api", lambda _: None)
        assert held(service) == before
        done = service.views["web"].generation
        await until(lambda: service.views["web"].generation > done + 15)
        assert service.role == "leader"
        assert [line.split(":")[0] for line in service.degraded] == ["state"]
        term = service.term
        # It comes back, and has forgotten everything.
        redis_server.start()
        await until(lambda: service.term != term and service.role == "leader")
        assert stored(redis_server) == before
        await until(lambda: plain.Redis(port=redis_server.port).exists("steelyard:1:state:web"))
        await service.change("web", edit("a", **DRAIN))
        assert service.degraded == ()

    # From an empty Redis it takes the lease again once its own has run out.
    leading(memcached, redis_server, steps, lease_s=1.0)


def test_a_change_that_redis_did_unheard_is_undone(memcached: Daemon, redis_server: Daemon) -> None:
    proxy = Proxy(redis_server.port)

    async def steps(service: Service) -> None:
        before = held(service)
        proxy.hang()
        with pytest.raises(NotStored):
            await service.change("web", edit("a", **DRAIN))
        with pytest.raises(NotStored):
            await service.change("new", lambda _: API)
        assert held(service) == before
        proxy.mend()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(NotStored):
                    await service.change("web", edit("b", **DRAIN), by=Author(name="anna", kind="token"))
                    break
        await until(lambda: stored(redis_server) == held(service))
        assert [peer.state for peer in stored(redis_server)["web"].upstream.peers] == ["up", "drain", "up"]
        undone: set[str] = set()
        async with asyncio.timeout(PATIENCE_S):
            while undone != {"web", "new"}:
                await asyncio.sleep(0.05)
                entries = await service.audit_log(most=100)
                undone = {each["upstream"] for each in entries if each["what"] == PUT_BACK}
        assert ("anna", "b: state up -> drain") in [(each["who"], each["what"]) for each in entries]

    with closing(proxy):
        leading(memcached, redis_server, steps, url=f"redis://{proxy.address}/0")


def test_a_client_that_goes_away_leaves_store_and_memory_alike(
    memcached: Daemon, redis_server: Daemon
) -> None:
    async def steps(service: Service) -> None:
        for pauses in range(8):
            task = asyncio.create_task(service.change("web", edit("a", baseline=pauses + 1)))
            for _ in range(pauses):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await service.change("web", edit("b", **DRAIN))
        assert stored(redis_server) == held(service)

    leading(memcached, redis_server, steps)


def test_declarations_that_are_none_are_waited_for(memcached: Daemon, redis_server: Daemon) -> None:
    hand = plain.Redis(port=redis_server.port)
    hand.set("steelyard:1:declarations", "x")

    async def run() -> None:
        async with running(memcached, redis_server) as service:
            await until(lambda: service.degraded)
            assert service.role == "waiting"
            assert "something else in steelyard:1:declarations" in service.degraded[0]
            assert hand.get("steelyard:1:declarations") == b"x"
            hand.delete("steelyard:1:declarations")
            await until(lambda: service.role == "leader")
            assert service.degraded == ()

    asyncio.run(run())


def test_a_damaged_declaration_stays_as_it_is_and_the_file_leads(
    memcached: Daemon, redis_server: Daemon
) -> None:
    hand = plain.Redis(port=redis_server.port)
    hand.hset("steelyard:1:declarations", "web", "garbage")

    async def steps(service: Service) -> None:
        await until(lambda: service.views["web"].outcome is not None)
        assert any("damaged" in line for line in service.degraded)
        assert hand.hget("steelyard:1:declarations", "web") == b"garbage"
        await service.change("web", edit("a", **DRAIN))
        assert stored(redis_server) == held(service)

    leading(memcached, redis_server, steps)


def test_a_state_of_a_newer_version_is_left_there_and_the_lease_to_others(
    memcached: Daemon, redis_server: Daemon
) -> None:
    hand = plain.Redis(port=redis_server.port)
    hand.set("steelyard:1:state:web", '{"v":2}')

    async def run() -> None:
        async with running(memcached, redis_server, lease_s=1.5) as service:
            await until(lambda: any(line.startswith("leading:") for line in service.degraded))
            assert "run the newer controller" in " ".join(service.degraded)
            assert service.role == "waiting"
            await until(lambda: not hand.exists("steelyard:1:lease"))
            assert hand.get("steelyard:1:state:web") == b'{"v":2}'
            hand.delete("steelyard:1:state:web")
            await until(lambda: service.role == "leader")
            assert service.degraded == ()

    asyncio.run(run())


def test_a_damaged_history_stops_nothing(memcached: Daemon, redis_server: Daemon) -> None:
    hand = plain.Redis(port=redis_server.port)
    hand.set("steelyard:1:history:web", "no stream")

    async def steps(service: Service) -> None:
        await until(
            lambda: service.views["web"].outcome is not None and service.views["web"].outcome.degraded
        )
        assert "steelyard:1:history:web" in service.views["web"].outcome.degraded[0]  # type: ignore[union-attr]
        await until(lambda: hand.exists("steelyard:1:state:web"))
        with pytest.raises(Unavailable):
            await service.history("web", seconds=60, step_s=1)
        hand.delete("steelyard:1:history:web")
        await until(lambda: hand.exists("steelyard:1:history:web"))
        hand.xadd("steelyard:1:history:web", {"m": "garbage"})
        moments = await service.history("web", seconds=60, step_s=0.1)
        assert moments
        assert all(json.loads(each)["ids"] == ["a", "b", "c"] for each in moments)

    leading(memcached, redis_server, steps)


def test_a_tick_that_overruns_is_counted_and_the_next_ones_come(
    memcached: Daemon, redis_server: Daemon
) -> None:
    proxy = Proxy(memcached.port)

    async def steps(service: Service) -> None:
        view = service.views["web"]
        await until(lambda: view.outcome is not None)
        proxy.hang()
        await until(lambda: view.overruns > 3)
        done = view.generation
        proxy.mend()
        await until(lambda: view.generation > done + 5)
        await until(lambda: view.outcome is not None and view.outcome.degraded == ())

    with closing(proxy):
        behind = Daemon([], proxy.port, memcached.log)
        leading(behind, redis_server, steps)


def test_listeners_hear_of_ticks_changes_and_roles(memcached: Daemon, redis_server: Daemon) -> None:
    async def run() -> None:
        async with running(memcached, redis_server) as service:
            with service.subscribe("web") as (first, events):
                assert (first.kind, json.loads(first.data)["role"]) == ("role", "waiting")
                heard: dict[str, Any] = {}
                while len(heard) < 2:
                    event = await events.next()
                    heard[event.kind] = json.loads(event.data)
                assert (heard["role"]["role"], heard["role"]["leader"]["id"]) == ("leader", "a")
                assert heard["tick"]["upstream"] == "web"
                await service.change("api", lambda _: API)
                await service.change("web", edit("a", **DRAIN))
                while event.kind != "change":
                    event = await events.next()
                assert json.loads(event.data) == {
                    "upstream": "web",
                    "revision": 2,
                    "what": "a: state up -> drain",
                }

    asyncio.run(run())


def test_memory_keeps_no_secret_of_it(memcached: Daemon) -> None:
    async def run() -> None:
        async with running(memcached, memcached, store=MemoryStore()) as service:
            await until(lambda: service.views and service.views["web"].outcome is not None)
            assert (service.volatile, service.document()["state"], service.role) == (True, "memory", "leader")

    asyncio.run(run())


def process(*flags: str, **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "steelyard_controller", "--api-port", str(free_port()), *flags]
    return warm_start.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | environment)


def test_a_newer_schema_ends_the_process_with_status_1_and_nothing_is_written(redis_server: Daemon) -> None:
    hand = plain.Redis(port=redis_server.port)
    hand.set("steelyard:schema", 2)
    said, status = "", None
    while status is None:
        said, ran = "", process("--state-url", f"redis://{redis_server.address}/0")
        assert ran.stderr is not None
        try:
            for line in ran.stderr:
                said += line
                if "did not answer within" in line:
                    break  # on a busy machine; it goes on without the store then
            else:
                status = ran.wait(PATIENCE_S)
        finally:
            ran.kill()
            ran.wait()
            ran.stderr.close()
    assert status == 1
    assert "Redis holds the schema '2', but this program knows 1: run the newer controller" in said
    assert "Traceback" not in said
    assert hand.keys() == [b"steelyard:schema"]


def test_a_wrong_password_is_one_clear_line_without_the_password(redis_server: Daemon) -> None:
    plain.Redis(port=redis_server.port).config_set("requirepass", "right")
    ran = process(STEELYARD_STATE_URL=f"redis://:wr0ng@{redis_server.address}/0")
    assert ran.stderr is not None
    lines = []
    try:
        for line in ran.stderr:
            lines.append(line)
            if "state:" in line:
                break
    finally:
        ran.kill()
        ran.wait()
        ran.stderr.close()
    assert "Redis refuses the user and the password of --state-url, or requires one" in lines[-1]
    assert "wr0ng" not in "".join(lines)


def test_what_the_file_declares_is_kept_as_its_own_once_and_in_parts(
    memcached: Daemon, redis_server: Daemon
) -> None:
    file = {f"up-{n}": Upstream() for n in range(2 * DECLARATIONS_PER_REQUEST + 1)}

    async def steps(service: Service) -> None:
        entries = await service.audit_log(most=5 * DECLARATIONS_PER_REQUEST)
        assert sorted(each["upstream"] for each in entries) == sorted(file)
        assert {(each["kind"], each["what"]) for each in entries} == {("file", "declared")}
        assert stored(redis_server) == held(service)

    # At its next lead, the controller finds the file as it was.
    for _ in range(2):
        leading(memcached, redis_server, steps, file=file)
