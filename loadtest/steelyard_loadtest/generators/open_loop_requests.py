"""The requests of the open loop, and the answers that it accepts. Pure.

`Same` and `Numbered` have requests by number, counted from 0 in due order. They name the kind of failure of
an answer ("": none).
"""

import json

from steelyard_loadtest.generators.tally import of_status

CROSSED = "crossed"
"""A whole answer to another request: worse than none."""

GARBLED = "garbled"
"""A whole answer that the demo server does not give."""


class Same:
    """The same request each time, judged by its answer's status alone."""

    def __init__(self, host: str, target: str) -> None:
        self._request = get(host, target)

    def request(self, number: int) -> bytes:  # noqa: ARG002 - all are the same
        """Return the request."""
        return self._request

    def failure(self, number: int, status: int, body: bytes) -> str:  # noqa: ARG002
        """Return the kind of failure by the status."""
        return of_status(status)


class Numbered:
    """Asks the demo server for the request's number back."""

    def __init__(self, host: str, path: str) -> None:
        self._host, self._path = host, path

    def request(self, number: int) -> bytes:
        """Return the request with this number."""
        return get(self._host, f"{self._path}?echo={number}")

    def failure(self, number: int, status: int, body: bytes) -> str:
        """Return "" for a 200 whose body has this number; a redirect or an empty answer is a failure too."""
        if status != 200:
            return str(status)
        try:
            echo = json.loads(body)["echo"]
        except (ValueError, KeyError, TypeError):
            return GARBLED
        return "" if echo == str(number) else CROSSED


def get(host: str, target: str) -> bytes:
    """Return a GET request on a connection that is kept."""
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: steelyard-loadtest\r\n\r\n".encode("ascii")
