"""What the open loop asks, and what it takes for an answer. Pure."""

from typing import Protocol

from steelyard_loadtest.lab.generators.failures import of_status


class Questions(Protocol):
    """Requests by number, counted from 0 in the order in which they are due."""

    def request(self, number: int) -> bytes:
        """Return a whole request, as it goes over the wire."""

    def failure(self, number: int, status: int, body: bytes) -> str:
        """Return "" when this answers the request, else the kind of failure."""


class Same:
    """One request again and again, whose answer's status says all."""

    def __init__(self, host: str, target: str) -> None:
        self._request = get(host, target)

    def request(self, number: int) -> bytes:  # noqa: ARG002 - all are the same
        """Return the request."""
        return self._request

    def failure(self, number: int, status: int, body: bytes) -> str:  # noqa: ARG002
        """Return the kind of failure that the status tells."""
        return of_status(status)


def get(host: str, target: str) -> bytes:
    """Return a GET request on a connection that is kept."""
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: steelyard-loadtest\r\n\r\n".encode("ascii")
