"""A real HAProxy, configured as in docs/guides/haproxy.md, asks a controller for weights and states."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from steelyard_controller.declarations.declaration import Declaration, with_patch
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.haproxy.agent_check import AgentCheck
from steelyard_controller.tick.cycle import Cycle
from steelyard_protocol import wire
from steelyard_protocol.haproxy_weights import haproxy_weights

from testing.daemons import free_port
from testing.waiting import PATIENCE_S

from ..examples import advance, sample
from .haproxy_process import Edge, Web, documented, haproxy, replaced, running

pytestmark = pytest.mark.integration

PEERS = ("server-1", "server-2", "server-3")


@dataclass
class Controller:
    """The listener's controller, which decides twenty times a second on the agents' `cpu`."""

    cpu: dict[str, float]
    upstream: Upstream
    role: str = "leader"
    views: dict[str, Cycle] = field(default_factory=dict)

    async def run(self) -> None:
        """Tick for ever."""
        cycle = self.views["web"] = Cycle("web", Declaration(upstream=self.upstream), tick_s=1.0)
        for tick in itertools.count(1):
            values = {
                wire.sample_key("web", peer): sample(peer, seq=tick, cpu=cpu)
                for peer, cpu in self.cpu.items()
            }
            cycle.outcome, _ = advance(cycle, values, now_s=float(tick), term=1, issued_at_ms=0, addresses={})
            await asyncio.sleep(0.05)

    def patch(self, peer: str, **fields: str) -> None:
        """Change the declaration of a server."""
        declared = self.views["web"].declaration
        self.views["web"].declaration = declared.changed(with_patch(declared.upstream, peer, fields))


@dataclass
class Rig:
    """Three servers with agents, and HAProxy in front of them; controllers come and go."""

    folder: Path
    port: int = field(default_factory=free_port)
    cpu: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PEERS, 0.3))
    webs: dict[str, Web] = field(default_factory=lambda: {peer: Web() for peer in PEERS})

    @contextlib.asynccontextmanager
    async def controller(self) -> AsyncIterator[Controller]:
        """Run a controller that answers HAProxy."""
        peers = [
            Peer(id=peer, address=f"127.0.0.1:{web.port}", baseline=1) for peer, web in self.webs.items()
        ]
        controller = Controller(cpu=self.cpu, upstream=Upstream(law="paper", peers=peers))
        check = AgentCheck(controller)  # type: ignore[arg-type]
        await check.start("127.0.0.1", self.port)
        try:
            async with running(controller.run()):
                yield controller
        finally:
            await check.stop()

    @contextlib.asynccontextmanager
    async def haproxy(self, *changes: tuple[str, str]) -> AsyncIterator[Edge]:
        """Run HAProxy as documented for one controller, with some changes."""
        config = documented().split("# Passes the agent-checks")[0]
        async with haproxy(
            self.folder,
            replaced(
                config,
                [
                    *changes,
                    ("agent-port 8083", f"agent-port {self.port}"),
                    *(
                        (f"10.0.0.1{n}:80", f"127.0.0.1:{web.port}")
                        for n, web in enumerate(self.webs.values(), 1)
                    ),
                ],
            ),
        ) as edge:
            yield edge


def _run(folder: Path, steps: Callable[[Rig], Awaitable[None]]) -> None:
    async def session() -> None:
        rig = Rig(folder)
        async with contextlib.AsyncExitStack() as stack:
            for web in rig.webs.values():
                await web.start()
                stack.push_async_callback(web.stop)
            await asyncio.wait_for(steps(rig), 3 * PATIENCE_S)

    asyncio.run(session())


def _answered(servers: dict[str, dict[str, str]]) -> bool:
    return all(row["agent_status"] == "L7OK" for row in servers.values())


async def _shared(controller: Controller, edge: Edge) -> tuple[dict[str, int], dict[str, int]]:
    """Return the controller's weights, and the spread of requests while HAProxy had no others."""
    while True:
        outcome = controller.views["web"].outcome
        assert outcome is not None
        wanted = dict(haproxy_weights(outcome.table))
        if await edge.weights() == wanted:
            got = await edge.requests(sum(wanted.values()))
            if await edge.weights() == wanted:
                return wanted, got
        await asyncio.sleep(0.02)


def _weight(servers: dict[str, dict[str, str]], peer: str) -> int:
    return int(servers[peer]["weight"])


def test_the_weights_and_the_requests_follow_the_samples(tmp_path: Path) -> None:
    async def steps(rig: Rig) -> None:
        async with rig.controller() as controller, rig.haproxy() as edge:
            await edge.until(_answered)
            assert await edge.weights() == dict.fromkeys(PEERS, 100)
            assert await edge.requests(60) == dict.fromkeys(PEERS, 20)
            rig.cpu["server-1"] = 0.95
            await edge.until(lambda servers: _weight(servers, "server-1") < 15)
            wanted, got = await _shared(controller, edge)
            assert all(abs(got[peer] - wanted[peer]) <= 2 for peer in PEERS)
            rig.cpu["server-1"] = 0.3
            await edge.until(lambda servers: _weight(servers, "server-1") > 95)

    _run(tmp_path, steps)


def test_a_drain_takes_no_request_and_comes_back(tmp_path: Path) -> None:
    async def steps(rig: Rig) -> None:
        async with rig.controller() as controller, rig.haproxy() as edge:
            await edge.until(_answered)
            controller.patch("server-2", state="drain")
            await edge.until(lambda servers: servers["server-2"]["status"] == "DRAIN (agent)")
            assert await edge.requests(20) == {"server-1": 10, "server-2": 0, "server-3": 10}
            controller.patch("server-2", state="up")
            await edge.until(lambda servers: servers["server-2"]["status"] == "UP")
            assert (await edge.requests(30))["server-2"] == 10

    _run(tmp_path, steps)


def test_before_the_checks_find_a_dead_server_no_request_fails_or_waits_for_it(tmp_path: Path) -> None:
    async def steps(rig: Rig) -> None:
        late = ("default-server weight 100", "default-server weight 100 fall 1000")
        async with rig.controller(), rig.haproxy(late) as edge:
            await edge.until(_answered)
            await rig.webs["server-2"].stop()
            # Each gets 200.
            await edge.requests(30)
            row = (await edge.servers())["server-2"]
            assert row["status"].startswith("UP"), row["status"]
            assert int(row["wredis"]) > 0
            assert int(row["wretr"]) == 0

    _run(tmp_path, steps)


def test_a_server_that_is_taken_down_is_down_and_may_be_drained_or_brought_back(tmp_path: Path) -> None:
    async def steps(rig: Rig) -> None:
        async with rig.controller() as controller, rig.haproxy() as edge:
            await edge.until(_answered)
            controller.patch("server-2", state="down")
            await edge.until(lambda servers: servers["server-2"]["status"] == "DOWN (agent)")
            # A check under way hides the last answer.
            said = "a person took it down in Steelyard"
            await edge.until(lambda servers: said in servers["server-2"]["last_agt"])
            assert await edge.requests(20) == {"server-1": 10, "server-2": 0, "server-3": 10}
            controller.patch("server-2", state="drain")
            await edge.until(lambda servers: servers["server-2"]["status"] == "DRAIN (agent)")
            controller.patch("server-2", state="up")
            await edge.until(lambda servers: servers["server-2"]["status"] == "UP")

    _run(tmp_path, steps)


def test_a_server_that_fails_haproxys_check_is_down_whatever_the_agent_says(tmp_path: Path) -> None:
    async def steps(rig: Rig) -> None:
        async with rig.controller(), rig.haproxy() as edge:
            await edge.until(_answered)
            await rig.webs["server-3"].stop()
            dead = await edge.until(lambda servers: servers["server-3"]["status"] == "DOWN")
            assert dead["server-3"]["agent_status"] == "L7OK"
            assert await edge.requests(20) == {"server-1": 10, "server-2": 10, "server-3": 0}
            await rig.webs["server-3"].start()
            await edge.until(lambda servers: servers["server-3"]["status"] == "UP")

    _run(tmp_path, steps)


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("GET / HTTP/1.1", "not-a-question"),
        ("shop/server-2", "unknown-upstream"),
        ("web/server-9", "unknown-server"),
    ],
)
def test_a_question_without_an_answer_changes_nothing(tmp_path: Path, question: str, shown: str) -> None:
    async def steps(rig: Rig) -> None:
        rig.cpu["server-2"] = 0.95
        quoted = question.replace(" ", "\\ ")
        async with rig.controller(), rig.haproxy(('"web/server-2\\n"', f"{quoted}\\n")) as edge:
            await edge.until(lambda servers: shown in servers["server-2"]["last_agt"])
            # A check under way hides the last answer.
            asked = await edge.until(
                lambda servers: (
                    _weight(servers, "server-1") > 100 and shown in servers["server-2"]["last_agt"]
                )
            )
            assert asked["server-2"]["status"].startswith("UP")
            assert asked["server-2"]["weight"] == "100"

    _run(tmp_path, steps)


def test_without_a_controller_haproxy_keeps_what_it_was_told_and_then_follows_the_next_one(
    tmp_path: Path,
) -> None:
    async def steps(rig: Rig) -> None:
        async with rig.haproxy() as edge:
            async with rig.controller() as controller:
                rig.cpu["server-1"] = 0.95
                await edge.until(lambda servers: _weight(servers, "server-1") < 15)
                controller.patch("server-3", state="drain")
                await edge.until(lambda servers: servers["server-3"]["status"] == "DRAIN (agent)")
            alone = await edge.until(
                lambda servers: all(row["agent_status"] == "L4CON" for row in servers.values())
            )
            assert _weight(alone, "server-1") < 15
            assert alone["server-1"]["status"].startswith("UP")
            assert alone["server-3"]["status"] == "DRAIN (agent)"
            rig.cpu["server-1"] = 0.3
            async with rig.controller():
                await edge.until(lambda servers: _weight(servers, "server-1") > 95)
                await edge.until(lambda servers: servers["server-3"]["status"] == "UP")

    _run(tmp_path, steps)


def test_a_silent_controller_changes_nothing(tmp_path: Path) -> None:
    async def steps(rig: Rig) -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.read()
            finally:
                writer.close()

        listener = await asyncio.start_server(silent, "127.0.0.1", rig.port)
        async with listener, rig.haproxy() as edge:
            late = await edge.until(lambda servers: servers["server-1"]["agent_status"] == "L7TOUT")
            assert late["server-1"]["status"].startswith("UP")
            assert late["server-1"]["weight"] == "100"

    _run(tmp_path, steps)


def test_a_standby_changes_nothing(tmp_path: Path) -> None:
    async def steps(rig: Rig) -> None:
        rig.cpu["server-1"] = 0.95
        async with rig.haproxy() as edge, rig.controller() as controller:
            await edge.until(lambda servers: _weight(servers, "server-1") < 15)
            controller.patch("server-2", state="drain")
            await edge.until(lambda servers: servers["server-2"]["status"] == "DRAIN (agent)")
            controller.role = "standby"
            asked = await edge.until(
                lambda servers: all(row["agent_status"] == "CHECKED" for row in servers.values())
            )
            assert _weight(asked, "server-1") < 15
            assert asked["server-1"]["status"].startswith("UP")
            assert asked["server-2"]["status"] == "DRAIN (agent)"

    _run(tmp_path, steps)


def test_a_server_of_another_weight_gets_its_share(tmp_path: Path) -> None:
    async def steps(rig: Rig) -> None:
        changes = ('agent-send "web/server-1\\n"', 'weight 1 agent-send "web/server-1 1\\n"')
        async with rig.controller(), rig.haproxy(changes) as edge:
            await edge.until(lambda servers: _weight(servers, "server-1") == 100)
            rig.cpu["server-1"] = 0.95
            away = await edge.until(lambda servers: 1 < _weight(servers, "server-1") < 15)
            assert away["server-1"]["status"].startswith("UP")

    _run(tmp_path, steps)


def test_a_person_at_haproxy_keeps_a_drain_of_his_own_by_disabling_the_agent(tmp_path: Path) -> None:
    async def steps(rig: Rig) -> None:
        async with rig.controller(), rig.haproxy() as edge:
            await edge.until(_answered)
            await edge.command("set server web/server-1 state drain")
            await edge.until(lambda servers: servers["server-1"]["status"] == "UP")
            await edge.command("disable agent web/server-1")
            await edge.command("set server web/server-1 state drain")
            rig.cpu["server-2"] = 0.95
            moved = await edge.until(lambda servers: _weight(servers, "server-2") < 15)
            assert moved["server-1"]["status"] == "DRAIN"
            await edge.command("enable agent web/server-1")
            await edge.until(lambda servers: servers["server-1"]["status"] == "UP")

    _run(tmp_path, steps)
