"""The agent-check listener on real sockets: its answers, and its limits."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.haproxy.agent_check import LONGEST_LINE, AgentCheck
from steelyard_controller.tick.cycle import Cycle

from testing.daemons import free_port
from testing.waiting import PATIENCE_S

from ..examples import advance

pytestmark = pytest.mark.integration


@dataclass
class Controller:
    """A controller as the listener sees it."""

    role: str = "leader"
    views: dict[str, Cycle] = field(default_factory=dict)

    def tick(self, **states: str) -> None:
        """Decide on an upstream of three."""
        peers = [
            Peer(id=name, address=f"10.0.0.1:{port}", state=states.get(name, "up"))  # type: ignore[arg-type]
            for port, name in enumerate("abc", 8001)
        ]
        cycle = Cycle("web", Declaration(upstream=Upstream(law="static", peers=peers)), tick_s=1.0)
        cycle.outcome, _ = advance(cycle, {}, now_s=1.0, term=1, issued_at_ms=0, addresses={})
        self.views["web"] = cycle


Ask = Callable[[bytes], Awaitable[bytes]]


def _run(
    steps: Callable[[Controller, Ask, int], Awaitable[None]],
    *,
    deadline_s: float = PATIENCE_S,
    most_connections: int = 1000,
) -> None:
    async def session() -> None:
        controller, port = Controller(), free_port()
        check = AgentCheck(controller, deadline_s=deadline_s, most_connections=most_connections)  # type: ignore[arg-type]

        async def ask(line: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(line)
                return await reader.read()
            finally:
                writer.close()

        await check.start("127.0.0.1", port)
        try:
            await asyncio.wait_for(steps(controller, ask, port), PATIENCE_S)
        finally:
            await check.stop()

    asyncio.run(session())


def test_a_question_is_answered_with_one_line_and_the_end() -> None:
    async def steps(controller: Controller, ask: Ask, _: int) -> None:
        controller.tick(b="drain")
        assert await ask(b"web/a\n") == b"up ready 100% #no sample yet\n"
        assert await ask(b"web/b\n") == b"up drain #a person drains it in Steelyard\n"
        assert await ask(b"web/a 50\r\n") == b"up ready 200% #no sample yet\n"

    _run(steps)


def test_the_next_tick_changes_the_answer() -> None:
    async def steps(controller: Controller, ask: Ask, _: int) -> None:
        controller.tick()
        assert (await ask(b"web/a\n")).startswith(b"up ready")
        controller.tick(a="down")
        assert (await ask(b"web/a\n")).startswith(b"down #")

    _run(steps)


def test_a_question_may_come_in_pieces_or_end_with_the_connection() -> None:
    async def steps(controller: Controller, _: Ask, port: int) -> None:
        controller.tick()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for piece in (b"we", b"b/", b"a"):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
        assert (await reader.read()).startswith(b"up ready")
        writer.close()

    _run(steps)


@pytest.mark.parametrize("role", ["standby", "waiting"])
def test_who_does_not_lead_says_nothing_that_haproxy_would_act_on(role: str) -> None:
    async def steps(controller: Controller, ask: Ask, _: int) -> None:
        controller.tick()
        controller.role = role
        assert (await ask(b"web/a\n")).startswith(b"#")

    _run(steps)


def test_before_the_first_tick_nothing_is_said() -> None:
    async def steps(controller: Controller, ask: Ask, _: int) -> None:
        controller.tick()
        controller.views["web"].outcome = None
        assert (await ask(b"web/a\n")).startswith(b"#")

    _run(steps)


def test_what_cannot_be_answered_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def steps(controller: Controller, ask: Ask, _: int) -> None:
        controller.tick()
        for _ in range(2):
            assert (await ask(b"GET / HTTP/1.1\n")).startswith(b"not-a-question #")
            assert (await ask(b"web/zebra\n")).startswith(b"unknown-server #")
            assert (await ask(b"shop/a\n")).startswith(b"unknown-upstream #")
        assert (await ask(b"\x00\xff\n")).startswith(b"not-a-question #")

    _run(steps)
    assert [message.split(":")[1].split(" ")[1] for message in caplog.messages] == [
        "'GET", "the", "there",
    ]  # fmt: skip


def test_names_from_outside_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def steps(_: Controller, ask: Ask, __: int) -> None:
        for n in range(150):
            await ask(f"shop-{n}/a\n".encode())

    _run(steps)
    assert len(caplog.messages) == 100


def test_an_endless_line_is_cut_off() -> None:
    async def steps(controller: Controller, ask: Ask, _: int) -> None:
        controller.tick()
        assert (await ask(b"a" * (LONGEST_LINE + 1))).startswith(b"not-a-question #")

    _run(steps)


def test_a_silent_and_a_dripping_client_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def steps(_: Controller, __: Ask, port: int) -> None:
        silent, first = await asyncio.open_connection("127.0.0.1", port)
        dripping, second = await asyncio.open_connection("127.0.0.1", port)

        async def drip() -> None:
            while not dripping.at_eof() and dripping.exception() is None:
                second.write(b"w")
                await asyncio.sleep(0.01)

        await asyncio.gather(_ended(silent), _ended(dripping), drip())
        first.close()
        second.close()

    _run(steps, deadline_s=0.1)
    assert len(caplog.messages) == 1
    assert "agent-send end with" in caplog.messages[0]


def test_clients_beyond_the_bound_are_closed_at_once_and_the_others_are_answered() -> None:
    async def steps(controller: Controller, ask: Ask, port: int) -> None:
        controller.tick()
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(11)]
        reader, writer = silent.pop()
        await _ended(reader)
        writer.close()
        silent.pop()[1].close()
        while True:
            # The place is free once the listener has noticed.
            try:
                answer = await ask(b"web/a\n")
            except ConnectionError:
                continue
            if answer:
                break
        assert answer.startswith(b"up ready")
        for _, writer in silent:
            writer.close()

    _run(steps, most_connections=10)


def test_stopping_ends_what_is_open_and_frees_the_port() -> None:
    async def session() -> None:
        port = free_port()
        for _ in range(2):
            check = AgentCheck(Controller())  # type: ignore[arg-type]
            await check.start("127.0.0.1", port)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while not check.open:
                await asyncio.sleep(0)
            await check.stop()
            await _ended(reader)
            writer.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(session())


async def _ended(reader: asyncio.StreamReader) -> None:
    """Wait until the other side has closed without an answer."""
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
