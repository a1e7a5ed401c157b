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

import numpy as np

from steelyard_controller.laws.snapshot import Floats

# The rate at which bounds widen: NTP slews clocks by at most 0.0005; free clocks drift by 0.0001 at worst.
DRIFT_RATE = 0.0005

# The longest way of a value into Memcached; synchronized clocks may exceed a bound by this.
ON_THE_WAY_S = 0.05


class SenderOffset(NamedTuple):
    """Bounds of the receiver's clock less the sender's, in seconds, at the time `at_s`.

    Each is one sender's, or an array with those of many senders.
    """

    low_s: Floats | float
    high_s: Floats | float
    at_s: Floats | float

    @classmethod
    def of(
        cls,
        sent_s: Floats | float,
        *,
        last_read_s: Floats | float,
        seen_s: Floats | float,
        before: Self | None,
    ) -> Self:
        """Return the bounds after messages of `sent_s` were seen.

        `before` has the previous bounds of the senders' runs; NaN: a run has none.
        """
        low_s, high_s = last_read_s - sent_s, seen_s - sent_s
        if before is not None:
            drift_s = DRIFT_RATE * np.maximum(0.0, seen_s - before.at_s)
            # fmax and fmin pass over NaN.
            low_now_s = np.fmax(low_s, before.low_s - drift_s)
            high_now_s = np.fmin(high_s, before.high_s + drift_s)
            agree = low_now_s <= high_now_s
            low_s, high_s = np.where(agree, low_now_s, low_s), np.where(agree, high_now_s, high_s)
        return cls(low_s, high_s, seen_s)

    def received_s(self, sent_s: Floats | float, synchronized_s: Floats | float) -> Floats:
        """Return the senders' times by the receiver's clock.

        `synchronized_s` is the offset if both clocks agree; NaN: unknown.
        """
        agree = (self.low_s - ON_THE_WAY_S <= synchronized_s) & (synchronized_s <= self.high_s + ON_THE_WAY_S)
        within_s = np.minimum(np.maximum(synchronized_s, self.low_s), self.high_s)
        received_s: Floats = sent_s + np.where(agree, within_s, (self.low_s + self.high_s) / 2)
        return received_s
