"""Readers of streams that come and go: nothing of them remains without a garbage collection."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Message
from steelyard_controller.api.app import create
from steelyard_controller.api.forward_to_leader import LeaderConnections
from steelyard_controller.api.streams import StreamedResponse
from steelyard_controller.service import Service

from testing.waiting import PATIENCE_S

from .serving import Standby, service_of

READERS = 20


class Reader:
    """A client; one that does not read keeps the sender waiting from the first bytes on."""

    def __init__(self, *, reads: bool) -> None:
        self._reads = reads
        self.heard = asyncio.Event()
        self.gone = asyncio.Event()

    async def receive(self) -> Message:
        """Return its leaving, once it leaves."""
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a message."""
        if message["type"] == "http.response.body":
            self.heard.set()
            if not self._reads:
                await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Free only objects without any reference."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def come_and_go(app: ASGIApp, *, reads: bool) -> int:
    """Return the number of readers with remains."""
    left: list[weakref.ref[Reader]] = []
    scope = {
        "type": "http", "method": "GET", "path": "/v1/events", "raw_path": b"/v1/events", "query_string": b"",
        "headers": [], "client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", 8081), "scheme": "http",
    }  # fmt: skip
    for _ in range(READERS):
        reader = Reader(reads=reads)
        left.append(weakref.ref(reader))
        async with asyncio.timeout(PATIENCE_S):
            serving = asyncio.ensure_future(app({**scope}, reader.receive, reader.send))
            await reader.heard.wait()
            await asyncio.sleep(0)
            reader.gone.set()
            await serving
        del serving, reader
    await asyncio.sleep(0)
    return sum(each() is not None for each in left)


class Leading(Service):
    """A service that leads and never ticks."""

    @property
    def role(self) -> Any:
        """Return that it leads."""
        return "leader"


@pytest.mark.parametrize("reads", [True, False])
def test_nothing_is_left_of_readers_of_events(reads: bool) -> None:
    async def run() -> None:
        service = service_of()
        service.__class__ = Leading
        app = create(service)
        async with app.router.lifespan_context(app):
            assert await come_and_go(app, reads=reads) == 0
            assert app.state.streams.count == 0
            assert not service.listeners.any_for("web")

    asyncio.run(run())


class Endless(httpx.AsyncByteStream):
    """A leader's stream: a line, and then nothing."""

    open = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        Endless.open += 1
        yield b": ping\n\n"
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        """Count the stream no more."""
        Endless.open -= 1


@pytest.mark.parametrize("reads", [True, False])
def test_nothing_is_left_of_readers_whom_a_standby_forwards(reads: bool) -> None:
    async def run() -> None:
        service = service_of(id="two")
        service.__class__ = Standby
        answer = httpx.MockTransport(
            lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Endless())
        )
        app = create(service, connections=LeaderConnections(answer))
        async with app.router.lifespan_context(app):
            assert await come_and_go(app, reads=reads) == 0
            assert Endless.open == 0

    asyncio.run(run())


def test_what_fails_while_it_is_sent_is_the_servers_to_know_and_the_generator_is_closed() -> None:
    closed: list[bool] = []

    async def chunks() -> AsyncGenerator[bytes, None]:
        with contextlib.ExitStack() as stack:
            stack.callback(closed.append, True)
            yield b"begun"
            raise LookupError("broke")

    async def run() -> None:
        reader = Reader(reads=True)
        with pytest.raises(LookupError):
            await StreamedResponse(chunks())({}, reader.receive, reader.send)
        assert closed == [True]

    asyncio.run(run())
