"""When ticks are due. Pure.

Ticks lie on a grid: what one takes too long does not move the next ones. One
that is not over when the next is due lets that one fall out.
"""


def following(due_s: float, now_s: float, tick_s: float) -> tuple[float, int]:
    """Return when the tick after that of `due_s` is due, and how many fell out by now."""
    missed = max(0, int((now_s - due_s) / tick_s))
    return due_s + (missed + 1) * tick_s, missed
