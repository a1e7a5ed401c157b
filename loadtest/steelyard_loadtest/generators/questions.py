"""The open loop's questions, their due times, and the answers that it accepts. Pure.

`Same` and `Numbered` have requests by number, counted from 0 in due order. They name the kind of failure of
an answer ("": none).

The schedule is a function of time alone: neither the server nor the generator can move it. A latency from the
due time therefore includes every wait (Tene, "How NOT to Measure Latency": coordinated omission; wrk2).
"""

import json
from dataclasses import dataclass

from steelyard_loadtest.generators.tally import of_status

CROSSED = "crossed"
"""A whole answer to another request: worse than none."""

GARBLED = "garbled"
"""A whole answer that the demo server does not give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacer:
    """Requests number 0, 1, 2, ... due at 0, 1/rate, 2/rate, ... seconds, all those before `seconds`."""

    rate_per_s: float
    seconds: float

    @property
    def requests(self) -> int:
        """Return the number of requests in all."""
        # The product may be on either side of a whole number; the quotient decides.
        number = round(self.seconds * self.rate_per_s)
        return number + (self.due_s(number) < self.seconds)

    def due_s(self, number: int) -> float:
        """Return when a request is due, in seconds from the start."""
        return number / self.rate_per_s

    def due_by(self, elapsed_s: float) -> int:
        """Return the number of requests due after this many seconds, including those due just now."""
        if elapsed_s < 0:
            return 0
        number = round(elapsed_s * self.rate_per_s)
        return min(number + (self.due_s(number) <= elapsed_s), self.requests)


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
