"""The HTTP server, and clients of every kind, on a real socket."""

import errno
import gc
import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from steelyard_agent.outputs.http_response import respond
from steelyard_agent.outputs.http_server import MOST_CLIENTS, HttpServer
from steelyard_agent.outputs.metrics import Status
from steelyard_protocol.sample_record import SampleRecord

pytestmark = pytest.mark.integration

REQUEST = b"GET /orca HTTP/1.1\r\nHost: x\r\n\r\n"
PATIENT_S = 20.0


def status(at_s: float) -> Status:
    record = SampleRecord(
        upstream="web",
        peer="server-1",
        boot="b1",
        seq=7,
        taken_at_ms=0,
        interval_s=1.0,
        utilization=(0.42, None, None, None),
        capacity=(None, None, None, None),
        scope="host",
    )
    return Status(at_s=at_s, stale_s=1e12, record=record, delivered=1, dropped=0, reachable={})


@pytest.fixture
def server() -> Iterator[HttpServer]:
    made = HttpServer(("127.0.0.1", 0), respond)
    yield made
    made.close()


def connect(server: HttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENT_S)


def test_a_host_of_everywhere_answers_both_families() -> None:
    server = HttpServer(("*", 0), respond)
    try:
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, server.port), timeout=PATIENT_S).close()
    finally:
        server.close()


def rest_of(client: socket.socket) -> bytes:
    """Return all bytes until the connection ends."""
    parts = []
    try:
        while part := client.recv(4096):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def get(server: HttpServer) -> bytes:
    with connect(server) as client:
        client.sendall(REQUEST)
        return rest_of(client)


def test_it_answers_with_the_newest_status(server: HttpServer) -> None:
    assert get(server).startswith(b"HTTP/1.1 503 ")
    server.show(status(0.0))
    assert get(server).endswith(b"TEXT cpu_utilization=0.42\n")


def test_a_request_may_come_byte_by_byte(server: HttpServer) -> None:
    server.show(status(0.0))
    with connect(server) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for n in range(len(REQUEST)):
            client.sendall(REQUEST[n : n + 1])
        assert rest_of(client).startswith(b"HTTP/1.1 200 ")


def test_clients_that_say_nothing_keep_nobody_from_an_answer(server: HttpServer) -> None:
    with ExitStack() as silent:
        for _ in range(3 * MOST_CLIENTS):
            silent.enter_context(connect(server))
            assert get(server).startswith(b"HTTP/1.1 503 ")


def test_who_is_one_too_many_is_let_go_without_a_line_in_the_log(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as clients:
        silent = [clients.enter_context(connect(server)) for _ in range(3 * MOST_CLIENTS)]
        assert rest_of(silent[0]) == b""
        assert get(server).startswith(b"HTTP/1.1 503")
    server.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_without_descriptors_the_log_says_nothing_of_clients(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error = OSError(errno.EMFILE, "Too many open files")
    context = {"message": "socket.accept() out of system resource", "exception": error}
    server._loop.call_soon_threadsafe(server._loop.call_exception_handler, context)
    assert get(server).startswith(b"HTTP/1.1 503")
    assert [record.levelname for record in caplog.records if "Too many" in record.message] == ["DEBUG"]


def test_closing_lets_those_go_that_were_accepted_just_now(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(20):
        server = HttpServer(("127.0.0.1", 0), respond)
        with ExitStack() as clients:
            accepted = [clients.enter_context(connect(server)) for _ in range(12)]
            server.close()
            assert [rest_of(client) for client in accepted] == [b""] * 12
    gc.collect()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_client_that_says_nothing_is_let_go(server: HttpServer) -> None:
    with connect(server) as client:
        client.sendall(REQUEST[:10])
        assert rest_of(client) == b""


def test_a_client_that_goes_before_the_answer_does_no_harm(server: HttpServer) -> None:
    for _ in range(5):
        with connect(server) as client:
            client.sendall(REQUEST)
    assert get(server).startswith(b"HTTP/1.1 503 ")


def test_a_request_without_an_end_is_too_long(server: HttpServer) -> None:
    with connect(server) as client:
        client.sendall(b"GET /" + b"x" * 8188)
        assert rest_of(client).startswith(b"HTTP/1.1 431 ")


def test_closing_frees_the_port(server: HttpServer) -> None:
    port = server.port
    server.close()
    again = HttpServer(("127.0.0.1", port), respond)
    again.close()


def test_a_port_that_is_taken_is_an_error(server: HttpServer) -> None:
    with pytest.raises(OSError, match="in use"):
        HttpServer(("127.0.0.1", server.port), respond)
