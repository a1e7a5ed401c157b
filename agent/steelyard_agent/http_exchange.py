"""One HTTP request and its answer, in bounded time and size. I/O only.

A socket's timeout is for one call: a server that sends a byte now and then would never be late.
So the connection is cut when the time is over.
"""

import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead

from steelyard_agent.log_text import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A server's answer, and the IP address that this machine asked from."""

    status: int
    body: bytes
    source_ip: str
    location: str | None = None


def exchange(
    connection: HTTPConnection,
    request: Callable[[str], None],
    *,
    timeout_s: float,
    most_bytes: int,
) -> Answer:
    """Connect, send what `request` sends (given this machine's IP), return the answer, close.

    It may take the connection's own timeout to connect, and `timeout_s` to be answered. No more than
    `most_bytes` of the body are read. Raises OSError (TimeoutError when it is late), HTTPException or
    UnicodeError.
    """
    cut = threading.Event()
    try:
        connection.connect()
        timer = threading.Timer(timeout_s, _cut, [connection.sock, cut])
        timer.daemon = True
        timer.start()
        try:
            source_ip = str(connection.sock.getsockname()[0])
            request(source_ip)
            response = connection.getresponse()
            body = _body(response, most_bytes)
            if response.length and len(body) < most_bytes:
                # Half of a number is another number.
                raise IncompleteRead(body, response.length)
            answer = Answer(
                status=response.status,
                body=body,
                source_ip=source_ip,
                location=response.getheader("Location"),
            )
        except Exception:
            if cut.is_set():
                raise TimeoutError("timed out") from None
            raise
        finally:
            timer.cancel()
    finally:
        connection.close()
    # To a reader, an answer that was cut off in its header looks like a whole one.
    if cut.is_set():
        raise TimeoutError("timed out")
    return answer


def _body(response: HTTPResponse, most_bytes: int) -> bytes:
    try:
        return response.read(most_bytes)
    except ValueError:
        # http.client takes a chunk's size for what int() takes, and then cannot read -5 bytes.
        raise HTTPException("a chunk of its body has no valid size") from None


def reason(error: Exception) -> str:
    """Return why there was no answer, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return one_line(why) or type(error).__name__


def _cut(connected: socket.socket, cut: threading.Event) -> None:
    cut.set()
    try:
        # The plain socket's: that of ssl would take the session from under the thread that reads.
        socket.socket.shutdown(connected, socket.SHUT_RDWR)
    except OSError:  # it is closed already
        return
