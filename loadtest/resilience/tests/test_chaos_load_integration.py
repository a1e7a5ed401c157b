"""The load against a server that answers well, answers another request, stops halfway, or closes."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import uvloop
from steelyard_loadtest.generators.pool import Connection, Pool
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_resilience.running_load import Load, StrictConnection

from testing.answering_server import AnsweringServer
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

RATE_PER_S = 100.0
COUNTED_S = 0.5


class Server(AnsweringServer):
    """Answers by the path.

    - /well: with the request's number.
    - /crossed: with another request's number, every fifth time.
    - /half: half a body every fifth time, then the end.
    - /taken: reads the second request on a connection and closes without an answer.
    - /unread: closes with the second request unread.
    """

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: int) -> bool:
        target = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()
        path, _, number = target.partition("?echo=")
        if path == "/taken" and answers:
            return False
        fifth = int(number) % 5 == 4
        body = f'{{"echo": "{int(number) + (path == "/crossed" and fifth)}"}}'.encode()
        half = path == "/half" and fifth
        if path == "/unread":
            # From now on only the kernel accepts bytes; its reset at the end shows that no program read them.
            writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body[: len(body) // 2] if half else body)
        if path == "/unread":
            await asyncio.sleep(3 / RATE_PER_S)
            return False
        return not half


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.stop()


def failures(server: Server, path: str, folder: Path) -> Counter[str]:
    """Return the ends of the first half second's requests, after all of them have ended."""
    load = Load(f"http://127.0.0.1:{server.port}{path}", RATE_PER_S, folder)
    try:
        until_s = load.began_s + COUNTED_S
        deadline_s = time.monotonic() + PATIENCE_S
        while not load.complete(until_s):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
            load.read()
    finally:
        load.stop()
    counted = [one for one in load.requests if one.due_s < until_s]
    assert len(counted) == RATE_PER_S * COUNTED_S
    return Counter(one.failure for one in counted)


def test_correct_answers_are_no_failures(server: Server, tmp_path: Path) -> None:
    assert failures(server, "/well", tmp_path) == {"": 50}


@pytest.mark.parametrize(("path", "kind"), [("/crossed", "crossed"), ("/half", "reset")])
def test_an_answer_to_another_or_half_of_one_is_a_failure(
    path: str, kind: str, server: Server, tmp_path: Path
) -> None:
    assert failures(server, path, tmp_path) == {"": 40, kind: 10}


def test_a_request_that_was_read_and_lost_is_not_sent_again(server: Server, tmp_path: Path) -> None:
    seen = failures(server, "/taken", tmp_path)
    assert seen.keys() == {"", "reset"}
    assert seen["reset"] >= 10


def test_a_request_that_was_never_read_is_sent_again(server: Server, tmp_path: Path) -> None:
    assert failures(server, "/unread", tmp_path) == {"": 50}


class Owner:
    """Records the fate of a connection's requests."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.was_stale: bool | None = None

    def answered(self, _connection: Connection, status: int, _body: bytes) -> None:
        self.answers.append(status)

    def lost(self, connection: Connection, _failure: str) -> None:
        self.was_stale = connection.was_stale


@pytest.mark.parametrize("closed_first", [True, False])
def test_a_request_that_crosses_the_end_of_its_connection_was_never_read(closed_first: bool) -> None:
    async def client(listener: socket.socket, owner: Owner) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: StrictConnection(cast(Pool, owner)), *listener.getsockname()
        )
        other, _ = listener.accept()
        connection.send(b"GET / HTTP/1.1\r\n\r\n")
        other.send(b"HTTP/1.1 204 No Content\r\n\r\n")
        while not owner.answers:
            await asyncio.sleep(0.01)
        assert other.recv(100)
        # The loop is unaware of the end when it sends, and the answer is a reset.
        if closed_first:
            other.close()
        connection.send(b"GET / HTTP/1.1\r\n\r\n")
        if not closed_first:
            await asyncio.sleep(0.01)
            assert other.recv(100)
            other.close()
        time.sleep(0.05)
        while owner.was_stale is None:
            await asyncio.sleep(0.01)

    owner = Owner()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        uvloop.run(asyncio.wait_for(client(listener, owner), PATIENCE_S))
    assert owner.was_stale is closed_first


def test_reading_an_ended_load_raises(server: Server, tmp_path: Path) -> None:
    load = Load(f"http://127.0.0.1:{server.port}/well", RATE_PER_S, tmp_path)
    load.stop()
    with pytest.raises(ProgramError, match="the load ended"):
        load.read()
