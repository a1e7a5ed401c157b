"""When a message's window ended, by the receiver's clock, though the sender wrote its own time on it.

Pure. The receiver reads once a tick, so each message that it finds new bounds the
difference of the two clocks, o = receiver - sender:

    last_read - sent  <  o  <=  seen - sent    last_read: the read without the message; seen: the one with it

All of a sender's run bound it together, the bounds drifting apart as clocks do. Where
both wall clocks may agree within the bounds, they are taken to; else the middle is.
So the end is off by at most one tick whatever a sender's clock says, by half a tick
where nothing better is known, and by nothing but their difference where clocks are
synchronized. A clock that was stepped contradicts the bounds, and they begin anew.

Windows are paired by it, and nothing else: freshness is judged by when a message was seen.
"""

from typing import NamedTuple, Self

# Clocks drift by 0.0001 at the worst; NTP slews them by 0.0005.
DRIFT = 0.0005

# What a value may take on its way into Memcached; by as much a bound may be passed.
ON_THE_WAY_S = 0.05


class SenderOffset(NamedTuple):
    """Bounds of the receiver's clock less the sender's, in seconds, as known at `at_s`.

    A tuple, because ten thousand are made in a tick.
    """

    low_s: float
    high_s: float
    at_s: float

    @classmethod
    def of(cls, sent_s: float, *, last_read_s: float, seen_s: float, before: Self | None) -> Self:
        """Return the bounds after a message of `sent_s` was seen, and what was known `before` in this run."""
        low_s, high_s = last_read_s - sent_s, seen_s - sent_s
        if before is not None:
            drift_s = DRIFT * max(0.0, seen_s - before.at_s)
            narrow = max(low_s, before.low_s - drift_s), min(high_s, before.high_s + drift_s)
            if narrow[0] <= narrow[1]:
                low_s, high_s = narrow
        return cls(low_s, high_s, seen_s)

    def received_s(self, sent_s: float, synchronized_s: float | None) -> float:
        """Return the sender's time by the receiver's clock; `synchronized_s` is the offset if both agree."""
        offset_s = (self.low_s + self.high_s) / 2
        if (
            synchronized_s is not None
            and self.low_s - ON_THE_WAY_S <= synchronized_s <= self.high_s + ON_THE_WAY_S
        ):
            offset_s = min(max(synchronized_s, self.low_s), self.high_s)
        return sent_s + offset_s
