"""An answer of the demo server as its transport gets it."""

import asyncio

from starlette.types import Receive, Scope, Send
from steelyard_loadtest.server.whole_answers import WholeAnswers
from uvicorn import Config
from uvicorn.server import ServerState


class Wire(asyncio.Transport):
    """Keeps the written data, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def close(self) -> None:
        self.closed.set()


async def application(_scope: Scope, _receive: Receive, send: Send) -> None:
    length = [(b"content-length", b"8")]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": b"some", "more_body": True})
    await asyncio.sleep(0.01)
    await send({"type": "http.response.body", "body": b"more"})


def test_an_answer_s_header_leaves_with_its_body_and_nothing_waits_for_what_comes_later() -> None:
    async def run() -> list[bytes]:
        config = Config(application, http=WholeAnswers, ws="none", lifespan="off", log_config=None)
        config.load()
        wire = Wire()
        protocol = WholeAnswers(config=config, server_state=ServerState(), app_state={})
        protocol.connection_made(wire)
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: server-1\r\nConnection: close\r\n\r\n")
        await wire.closed.wait()
        return wire.written

    first, last = asyncio.run(run())
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert first.endswith(b"\r\n\r\nsome")
    assert last == b"more"


def test_a_request_for_one_path_gets_no_answer_on_a_kept_connection() -> None:
    async def run() -> list[bytes]:
        config = Config(application, http=WholeAnswers, ws="none", lifespan="off", log_config=None)
        config.load()
        wire = Wire()
        protocol = WholeAnswers(config=config, server_state=ServerState(), app_state={})
        protocol.connection_made(wire)
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: server-1\r\n\r\n")
        while len(wire.written) < 2:
            await asyncio.sleep(0.001)
        protocol.data_received(b"GET /hang-up?at=once HTTP/1.1\r\nHost: server-1\r\n\r\n")
        await wire.closed.wait()
        return wire.written

    assert b"".join(asyncio.run(run())).count(b"HTTP/1.1") == 1
