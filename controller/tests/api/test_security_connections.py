"""Clients that try to hold the API: too many of them, and endless requests."""

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from steelyard_controller.api import connection_limits
from steelyard_controller.api.connection_limits import ConnectionLimiter

from ..processes import LOCAL, Controller, controller

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
# More than the kernel keeps for a reader that does not read.
LARGE = 16 * 2**20


async def _answer(request: Request) -> Response:
    if "early" in request.query_params:
        return StreamingResponse(_begun(request))
    with contextlib.suppress(ClientDisconnect):
        await request.body()
    return PlainTextResponse(b"x" * LARGE if "large" in request.query_params else b"ok")


async def _begun(request: Request) -> AsyncIterator[bytes]:
    yield b"begun"
    with contextlib.suppress(ClientDisconnect):
        yield await request.body()


@contextlib.asynccontextmanager
async def listening(**limits: float) -> AsyncIterator[tuple[int, ConnectionLimiter]]:
    """Yield the port of a server with small connection limits, and the limiter."""
    limiter = ConnectionLimiter(**limits)  # type: ignore[arg-type]
    app = Starlette(routes=[Route("/", _answer, methods=["GET", "POST"])])
    server = uvicorn.Server(
        uvicorn.Config(
            app, host="127.0.0.1", port=0, http=connection_limits.protocol_limited_by(limiter), ws="none",
            log_config=None, timeout_graceful_shutdown=1,
        )
    )  # fmt: skip
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1], limiter
    finally:
        server.should_exit = True
        await serving


async def ask(port: int, client: str = "127.0.0.1") -> bytes:
    """Return the status line of an answer; nothing for a closed connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(client, 0))
    try:
        writer.write(GET)
        return await reader.readline()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def closed(reader: asyncio.StreamReader) -> bool:
    """Wait until the other side closes, whatever it sends before."""
    with contextlib.suppress(ConnectionError):
        while await reader.read(65536):
            pass
    return True


@pytest.mark.parametrize("begun", [b"", b"G", GET[:-2], b"POST / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 5000])
def test_who_does_not_finish_the_head_is_let_go(begun: bytes) -> None:
    async def scenario() -> None:
        async with listening(head_s=0.2) as (port, limiter):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begun)
            assert await closed(reader)
            writer.close()
            while limiter.count:
                await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_a_byte_now_and_again_does_not_hold_a_connection() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            for number in range(10_000):
                writer.write(b"X-%d: 1\r\n" % number)
                await writer.drain()
                await asyncio.sleep(0.02)

    async def scenario() -> None:
        async with listening(head_s=0.3) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET[:-2])
            dripping = asyncio.create_task(drip(writer))
            assert await closed(reader)
            dripping.cancel()
            writer.close()

    asyncio.run(scenario())


def test_a_connection_that_was_used_is_no_better_when_it_begins_another_head() -> None:
    async def scenario() -> None:
        async with listening(head_s=0.3) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.write(b"G")
            assert await closed(reader)
            writer.close()

    asyncio.run(scenario())


def test_a_head_without_an_end_is_refused_before_it_is_large() -> None:
    async def scenario() -> None:
        async with listening() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET[:-2] + b"X: " + b"y" * 100_000)
            assert (await reader.readline()).startswith(b"HTTP/1.1 400")
            writer.close()

    asyncio.run(scenario())


def test_who_does_not_read_the_answer_is_let_go_and_who_reads_slowly_is_not() -> None:
    async def request(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # A small buffer on our side as well, so that only reading makes progress.
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            sock.connect(("127.0.0.1", port))
            sock.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=sock.dup(), limit=65536)
        writer.write(GET.replace(b"/ ", b"/?large "))
        return reader, writer

    async def scenario() -> None:
        async with listening(unread_s=1.5) as (port, limiter):
            _, silent = await request(port)
            reader, slow = await request(port)
            got = 0
            while got < LARGE:
                got += len(await reader.read(2**20))
                await asyncio.sleep(0.01 if limiter.count == 1 else 0.05)
            # The silent one began before, and is gone; the slow one has it all.
            assert limiter.count == 1
            silent.close()
            slow.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("query", ["", "?early"], ids=["before its answer", "in its answer"])
def test_a_request_that_breaks_in_its_body_is_refused_without_a_traceback(
    query: str, caplog: pytest.LogCaptureFixture
) -> None:
    head = f"POST /{query} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode()

    async def scenario() -> bytes:
        async with listening() as (port, limiter):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head)
            if query:
                await reader.readuntil(b"begun")
            writer.write(b"f" * 24 + b"\r\nx")
            answer = b""
            with contextlib.suppress(ConnectionError):
                answer = await reader.read()
            writer.close()
            while limiter.count:
                await asyncio.sleep(0.01)
            return answer

    with caplog.at_level(logging.ERROR):
        answer = asyncio.run(scenario())
    assert answer.startswith(b"HTTP/1.1 400") != bool(query)
    assert caplog.messages == []


def test_one_client_cannot_take_every_connection() -> None:
    async def scenario() -> None:
        async with listening(connections=8, of_one_client=5) as (port, limiter):
            held = [
                await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
                for _ in range(7)
            ]
            while limiter.count != 5:
                await asyncio.sleep(0.01)
            assert await ask(port, "127.0.0.2") == b""
            assert (await ask(port, "127.0.0.3")).startswith(b"HTTP/1.1 200")
            for _, writer in held:
                writer.close()
            while limiter.count:
                await asyncio.sleep(0.01)
            assert (await ask(port, "127.0.0.2")).startswith(b"HTTP/1.1 200")

    asyncio.run(scenario())


def test_refused_connections_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    limiter = ConnectionLimiter(connections=2, of_one_client=1, clock=lambda: now_s)
    with caplog.at_level(logging.WARNING):
        assert limiter.admit("a")
        assert not limiter.admit("a")
        assert limiter.admit("b")
        assert not any(limiter.admit("c") for _ in range(100))
        assert len(caplog.messages) == 1
        now_s = 61.0
        assert not limiter.admit("c")
        assert len(caplog.messages) == 2
    limiter.release("a")
    assert limiter.admit("c")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Controller]:
    """Yield a controller started with 1024 descriptors, as under a shell or systemd."""
    config = tmp_path / "controller.yaml"
    config.write_text("upstreams: {web: {peers: [{id: a, address: '10.0.0.1:80', baseline: 1}]}}\n")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    flags = ["--config", str(config), "--state-url", "memory://", "--memcached", "127.0.0.1:1"]
    with controller(tmp_path, *flags) as running:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 4096), before[1]))
        running.wait("leader")
        yield running
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.integration
def test_ticks_go_on_behind_a_thousand_idle_connections(small: Controller) -> None:
    port = int(small.url.rpartition(":")[2])

    def generation() -> int:
        answer = LOCAL.get(f"{small.url}/v1/upstreams/web/weights")
        return int(answer.json()["generation"])

    with contextlib.ExitStack() as stack:
        for number in range(996):
            client = f"127.0.0.{2 + number % 4}"
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 5, (client, 0)))
        before = generation()
        while generation() < before + 3:
            pass
        assert LOCAL.get(f"{small.url}/healthz").status_code == 200
    assert "Too many open files" not in small.log.read_text()
