"""The arrival schedule of the open loop: when each request is due. Pure.

It is a function of time alone: neither the server nor the generator can move it. A latency from the due time
therefore includes every wait (Tene, "How NOT to Measure Latency": coordinated omission; wrk2).
"""

from dataclasses import dataclass


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
