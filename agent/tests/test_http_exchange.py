"""One request and its answer, from servers with malformed HTTP."""

import socket
import threading
from http.client import HTTPException

import pytest
from steelyard_agent.http_exchange import exchange

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def ask(answer: bytes) -> bytes:
    """Return the body read from a server that sends these bytes to any request."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            port = server.getsockname()[1]
            return exchange(
                "GET", "127.0.0.1", port, "/", trust=None, headers={}, timeout_s=60, most_bytes=1000
            ).body
        finally:
            thread.join()


def test_a_body_in_chunks_is_read() -> None:
    assert ask(HEAD + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n") == b"abc"


@pytest.mark.parametrize("size", [b"-5", b"-1", b"x", b""])
def test_a_chunk_of_no_valid_size_is_an_answer_that_cannot_be_read(size: bytes) -> None:
    with pytest.raises(HTTPException):
        ask(HEAD + size + b"\r\nabcde\r\n0\r\n\r\n")
