"""One HTTP request and its answer, in bounded time and size. I/O only.

A socket's timeout is for one call: a server that sends a byte now and then would never be late.
So the connection is cut at the deadline.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead

from steelyard_agent.log_text import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A server's answer, and this machine's IP address in the connection."""

    status: int
    body: bytes
    source_ip: str
    location: str | None = None


def exchange(
    method: str,
    host: str,
    port: int | None,
    target: str,
    *,
    trust: ssl.SSLContext | None,
    headers: Mapping[str, str],
    timeout_s: float,
    most_bytes: int,
    body: Callable[[str], bytes] | None = None,
) -> Answer:
    """Connect (over TLS if there is a `trust`), send a request, return the answer, close.

    `body` makes the request's body from this machine's IP address. Connecting may take `timeout_s`, and the
    answer `timeout_s` more. At most `most_bytes` of the answer's body are read. Redirects are not followed
    and proxies not used. Raises OSError (TimeoutError if it is late), HTTPException or UnicodeError.
    """
    connection = (
        HTTPConnection(host, port, timeout=timeout_s)
        if trust is None
        else HTTPSConnection(host, port, timeout=timeout_s, context=trust)
    )
    cut = threading.Event()
    try:
        connection.connect()
        timer = threading.Timer(timeout_s, _cut, [connection.sock, cut])
        timer.daemon = True
        timer.start()
        try:
            source_ip = str(connection.sock.getsockname()[0])
            content = None if body is None else body(source_ip)
            ours = {"User-Agent": "steelyard-agent", "Connection": "close"}
            connection.request(method, target, content, {**ours, **headers})
            response = connection.getresponse()
            read = _body(response, most_bytes)
            if response.length and len(read) < most_bytes:
                # Half of a number is another number.
                raise IncompleteRead(read, response.length)
            answer = Answer(
                status=response.status,
                body=read,
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
    # To a reader, an answer cut off in its header looks like a whole one.
    if cut.is_set():
        raise TimeoutError("timed out")
    return answer


def _body(response: HTTPResponse, most_bytes: int) -> bytes:
    try:
        return response.read(most_bytes)
    except ValueError:
        # http.client parses a chunk's size with int(), and then cannot read -5 bytes.
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
        # The plain socket's: ssl's would take the session from under the reading thread.
        socket.socket.shutdown(connected, socket.SHUT_RDWR)
    except OSError:  # it is closed already
        return
