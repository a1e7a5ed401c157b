"""When ticks are due. Pure.

    tick n is due at  start + interval x (n + phase + jitter_n)      -0.5 <= phase < 0.5, |jitter| <= JITTER

whatever the ticks before it took: the schedule does not drift and jitter does
not add up. The phase is each agent's own, so that a thousand agents that were
started at once do not write in the same millisecond; the jitter keeps those
that share a phase by chance from meeting at every tick.
"""

from math import ceil

JITTER = 0.05
"""As a share of the interval: enough to part two agents, too little to make a sample look late."""

# A sample over less would be noise: the tick that is nearer is left out.
SHORTEST = 0.5


def phase(random: float) -> float:
    """Return an agent's phase, in intervals, from a random number within 0..1."""
    return random - 0.5


def following(tick: int, elapsed: float) -> int:
    """Return the number of the tick after `tick`, `elapsed` intervals (with the phase) after the start."""
    return max(tick, ceil(elapsed - SHORTEST)) + 1


def due(tick: int, random: float) -> float:
    """Return when a tick is due, in intervals after the start (with the phase); random is within 0..1."""
    return tick + JITTER * (2 * random - 1)
