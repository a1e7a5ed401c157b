"""The common phase: the instants of the clock at which senders act, so that none waits for another. Pure.

    agents sample at             k I           I: their interval
    nginx reports at             k I + 0.02 s  just after its workers have handed in their counts
    the controller ticks at      k T + 0.10 s
    nginx fetches at             k F + 0.25 s  F: its fetch_interval_s

each later by up to `SPREAD_S`, by its name, so that ten thousand do not meet in
one instant. Lua's half is openresty/steelyard/lib/steelyard/core/clock_phase.lua.

The phase is only an aim. Durations are the monotonic clock's, and each is at
least 1 - PULL of the period: a clock that is stepped or wrong moves the phase
slowly, and stops or bunches nothing.

    due' = due + n T - clip(e, -PULL T, PULL T)     e: by how much due + n T misses its instant, within +-T/2
"""

from hashlib import blake2b

PULL = 0.05
"""Of the period, and so by how much one differs from the others: half a period is made up in ten of them."""

ANYWHERE = 0.5
"""In place of `PULL` at a start, where no period has begun: the instant itself, wherever it is."""

CONTROLLER_S = 0.10
"""Of the controller's ticks: samples and reports of this instant have come, over a slow network too."""

# 10,000 agents: one each 5 us, which Memcached can take; and half of the time that the controller waits.
SPREAD_S = 0.05


def spread_s(name: str, interval_s: float) -> float:
    """Return how long after the common instant the sender of this name acts, in seconds."""
    share = int.from_bytes(blake2b(name.encode(), digest_size=4).digest()) / 2**32
    return share * min(SPREAD_S, SPREAD_S * interval_s)


def aimed(
    due_s: float, *, now_s: float, wall_s: float, interval_s: float, instant_s: float, pull: float = PULL
) -> float:
    """Return when to act in place of `due_s`, on the monotonic clock: nearer to the common instant.

    `now_s` and `wall_s` are the monotonic and the wall clock of one moment; `instant_s` is the instant
    within the period; `pull` is the share of the period by which it may differ from `due_s`.
    """
    missed_s = (wall_s + due_s - now_s - instant_s + interval_s / 2) % interval_s - interval_s / 2
    return due_s - max(-pull * interval_s, min(pull * interval_s, missed_s))
