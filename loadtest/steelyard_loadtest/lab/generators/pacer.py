"""When requests of a constant total rate are due. Pure.

The schedule is a function of time alone: what the server or the generator does
meanwhile moves nothing. A latency counted from the due time therefore includes
every wait (Tene, "How NOT to Measure Latency": coordinated omission; wrk2).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacer:
    """Requests number 0, 1, 2, ... due at 0, 1/rate, 2/rate, ... seconds, as many as lie before `seconds`."""

    rate_per_s: float
    seconds: float

    @property
    def requests(self) -> int:
        """Return how many requests there are in all."""
        return self._before(self.seconds)

    def due_s(self, number: int) -> float:
        """Return when a request is due, in seconds from the start."""
        return number / self.rate_per_s

    def due_by(self, elapsed_s: float) -> int:
        """Return how many requests are due when so many seconds have passed; those due just now are."""
        if elapsed_s < 0:
            return 0
        number = round(elapsed_s * self.rate_per_s)
        return min(number + (self.due_s(number) <= elapsed_s), self.requests)

    def _before(self, elapsed_s: float) -> int:
        # The product may lie on either side of a whole number; the quotient decides.
        number = round(elapsed_s * self.rate_per_s)
        return number + (self.due_s(number) < elapsed_s)
