"""Questions to stores that answer in arbitrary pieces."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_resilience.stage.stage import ask_memcached, ask_redis

from testing.daemons import Daemon


@contextmanager
def answering(*answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Serve one client: keep its first bytes, and answer with these pieces."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                heard.append(connection.recv(4096))
                for piece in answer:
                    connection.sendall(piece)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], heard
        thread.join()


def test_memcached_s_answer_ends_where_the_next_command_s_begins() -> None:
    with answering(b"VALUE a 0 3\r\nab", b"c\r\nEND\r\nMN", b"\r\n") as (port, heard):
        assert ask_memcached("127.0.0.1", port, b"get a") == b"VALUE a 0 3\r\nabc\r\nEND\r\n"
    assert heard == [b"get a\r\nmn\r\n"]


@pytest.mark.integration
def test_redis_answers_each_command_in_its_way_and_what_it_refuses_is_an_error(redis_server: Daemon) -> None:
    def ask(*parts: str) -> Any:
        return ask_redis("127.0.0.1", redis_server.port, parts)

    assert ask("SET", "ключ", "")
    assert ask("GET", "ключ") == b""
    assert int(ask("INFO", "memory")["used_memory"]) > 100_000
    assert [type(each) for each in ask("TIME")] == [int, int]
    assert ask("REPLICAOF", "192.0.2.1", "6379")
    with pytest.raises(ProgramError, match="SET a 1: You can't write against a read only replica"):
        ask("SET", "a", "1")
    assert ask("REPLICAOF", "NO", "ONE")


def test_a_look_is_nothing_when_there_is_no_json_object() -> None:
    for body in (b"[]", b"not JSON"):
        with answering(b"HTTP/1.0 200 OK\r\n\r\n" + body) as (port, _):
            assert http_ask.look("127.0.0.1", port, "/") is None


def test_a_look_is_the_document_whatever_the_status() -> None:
    with answering(b'HTTP/1.0 503 No\r\n\r\n{"role": "waiting"}') as (port, heard):
        assert http_ask.look("127.0.0.1", port, "/readyz", "a-token") == {"role": "waiting"}
    assert b"Authorization: Bearer a-token\r\n" in heard[0]


@pytest.mark.parametrize(
    "question",
    [
        lambda port: http_ask.ask_line("127.0.0.1", port, "0.5"),
        lambda port: ask_memcached("127.0.0.1", port, b"version"),
        lambda port: ask_redis("127.0.0.1", port, ["PING"]),
        lambda port: http_ask.ask("127.0.0.1", port, "/", timeout_s=5.0),
    ],
)
def test_an_error_names_the_address_that_hung_up(question: Callable[[int], object]) -> None:
    with answering() as (port, _), pytest.raises(ProgramError, match=f"127.0.0.1:{port} does not answer"):
        question(port)
