"""The end of a message's window by the receiver's clock, from the sender's own time in the message.

Pure. The receiver reads once a tick. So each new message bounds the difference
of the two clocks, o = receiver - sender:

    last_read - sent  <  o  <=  seen - sent    last_read: the last read without the message; seen: the first
                                               one with it

All messages of a sender's run bound the difference together. The bounds widen
at the rate at which clocks drift. If the two wall clocks may agree within the
bounds, they are assumed to agree; otherwise the middle counts. So the end is
off by at most one tick, whatever the sender's clock says. Without further
knowledge it is off by half a tick. If the clocks are synchronized, it is off by
their difference only. A stepped clock contradicts the bounds, and they start
again.

Only the pairing of windows uses this. Freshness depends on the time at which
the receiver saw a message.
"""

from typing import NamedTuple, Self

# The rate at which bounds widen: NTP slews clocks by at most 0.0005; free clocks drift by 0.0001 at worst.
DRIFT_RATE = 0.0005

# The longest way of a value into Memcached; synchronized clocks may exceed a bound by this.
ON_THE_WAY_S = 0.05


class SenderOffset(NamedTuple):
    """Bounds of the receiver's clock less the sender's, in seconds, at the time `at_s`.

    It is a tuple because a tick makes ten thousand of them.
    """

    low_s: float
    high_s: float
    at_s: float

    @classmethod
    def of(cls, sent_s: float, *, last_read_s: float, seen_s: float, before: Self | None) -> Self:
        """Return the bounds after a message of `sent_s` was seen; `before` has this run's previous bounds."""
        low_s, high_s = last_read_s - sent_s, seen_s - sent_s
        if before is not None:
            drift_s = DRIFT_RATE * max(0.0, seen_s - before.at_s)
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
