"""How many connections to the API may be open, in all and of one client. No I/O but the log."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger("steelyard.controller")

# Whoever stands too often before a full door is said once a minute: the log is not a stranger's to fill.
COMPLAIN_EVERY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What clients may take.

    connections         open at the same time; each costs a descriptor and some 10 kB
    of_one_client       of these; one client alone cannot lock out all others
    head_s              from the first byte (or the connection) to the end of a request's head
    unread_s            in which a client must have read something of what is sent to it
    """

    # A cluster has a few dozen clients: load balancers, agents now and again, pages, Prometheus.
    connections: int = 1000
    # All pages behind one proxy have one address: 100 streams, and the requests beside them.
    of_one_client: int = 250
    # A head is one packet; the slowest line needs a second.
    head_s: float = 10.0
    # Longer than any stall of a line that still lives.
    unread_s: float = 30.0


class Door:
    """Who is in; one for all connections of a server."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._inside: Counter[str] = Counter()
        self._complained_at = -COMPLAIN_EVERY_S

    @property
    def count(self) -> int:
        """Return how many connections are open."""
        return self._inside.total()

    def enter(self, client: str) -> bool:
        """Tell whether one more connection of a client may stay; it then counts until it leaves."""
        if self.count >= self.limits.connections:
            return self._turn_away(f"{self.count} connections to the API are open, the most there may be")
        if self._inside[client] >= self.limits.of_one_client:
            return self._turn_away(
                f"{client} has {self._inside[client]} connections to the API open, the most for one client"
            )
        self._inside[client] += 1
        return True

    def leave(self, client: str) -> None:
        """Count a connection no more."""
        self._inside[client] -= 1
        if not self._inside[client]:
            del self._inside[client]

    def _turn_away(self, why: str) -> bool:
        now_s = self._clock()
        if now_s - self._complained_at >= COMPLAIN_EVERY_S:
            self._complained_at = now_s
            log.warning("%s; more are closed at once", why, extra={"event": "connections"})
        return False
