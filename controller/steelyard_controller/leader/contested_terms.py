"""Terms that end because Memcached holds a higher one. Pure.

Controllers of one installation share a Redis, which gives out their terms. The earlier leader finds a higher
term in Memcached once, and then stands by. If this controller leads again each time, the higher terms come
from a control plane with another Redis. The two then end each other's terms every few ticks, and neither
learns much.
"""

from collections import deque

# A takeover ends one term. A pause of this process in the midst of a takeover may end another.
TAKEOVERS = 2

# Two control planes with ticks of up to ten seconds end this many terms in less time.
WITHIN_S = 180.0


class ContestedTerms:
    """The terms of this controller that a higher term in Memcached ended lately."""

    def __init__(self) -> None:
        self._ended_s: deque[float] = deque(maxlen=TAKEOVERS + 1)
        self._why = ""

    def note(self, why: str, now_s: float) -> None:
        """Note that a term ended, and the value in Memcached that ended it."""
        self._ended_s.append(now_s)
        self._why = why

    def fault(self, now_s: float) -> str | None:
        """Return the fault that another control plane writes to the same Memcached; None: none does."""
        if len(self._ended_s) <= TAKEOVERS or now_s - self._ended_s[0] > WITHIN_S:
            return None
        return (
            f"{self._why}, which no controller of this Redis has written: another control plane uses this "
            "Memcached. Give each its own --installation, and declare no upstream in both"
        )
