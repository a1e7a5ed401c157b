"""Requests to the rig's servers, past the balancer (I/O)."""

import http.client
import time

TIMEOUT_S = 30.0
"""A server with a small quota and a queue before it answers late, and is not dead."""


def request(address: str, method: str, path: str) -> int:
    """Return the status of the answer. Raises OSError when there is none."""
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
    try:
        return _send(connection, method, path)
    finally:
        connection.close()


def answers(address: str, path: str) -> bool:
    """Say whether a server answers 200."""
    try:
        return request(address, "GET", path) == 200
    except OSError:
        return False


def load(address: str, path: str, requests: int, at_most_s: float) -> int:
    """Send requests one after the other; return the first status that is not 200, or 200. Raises OSError."""
    deadline_s = time.monotonic() + at_most_s
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)  # kept alive, as a balancer's are
    try:
        for _ in range(requests):
            status = _send(connection, "GET", path)
            if status != 200 or time.monotonic() > deadline_s:
                return status
        return 200
    finally:
        connection.close()


def _send(connection: http.client.HTTPConnection, method: str, path: str) -> int:
    try:
        connection.request(method, path)
        with connection.getresponse() as response:
            response.read()
            return response.status
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP answer: {error!r}") from error
