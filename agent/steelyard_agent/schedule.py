"""When the next tick is due. Pure.

Tick n is due at n x interval from the start, whatever the ticks before it
took; so the schedule does not drift, and ticks that were missed are skipped.
"""


def following(tick: int, elapsed_s: float, interval_s: float) -> int:
    """Return the number of the tick after `tick`, the first one not yet due `elapsed_s` after the start."""
    return max(tick, int(elapsed_s // interval_s)) + 1
