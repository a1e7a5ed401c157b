"""What is done when in a soak of so many seconds. Pure."""

from dataclasses import dataclass

RELOADED_PART = 1 / 3
"""Reloads come in this part of a soak; the workers of the last one live through all the rest, because what a
worker leaks shows the better the longer it lives."""

RELOADS = 6
RELOAD_EVERY_LEAST_S = 20.0

LEAST_S, MOST_S = 90.0, 7000.0
"""A shorter one leaves too little to judge after the warm-up; the load's generator ends after two hours."""

OFTEN_S, SELDOM_S = 1.0, 5.0
"""Between two readings: of a soak of minutes, and of a longer one, whose slopes need no more."""
LONG_FROM_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A soak: its length, its load, and how often the servers are changed."""

    seconds: float = 1800.0
    rate_per_s: float = 200.0
    servers: int = 5
    nginx_workers: int = 2
    step_every_s: float = 1.0

    @property
    def jit(self) -> bool:
        """Return whether nginx compiles its Lua; in a short soak that would hide a leak for minutes."""
        return self.seconds >= LONG_FROM_S

    @property
    def read_every_s(self) -> float:
        """Return the time between two readings."""
        return SELDOM_S if self.seconds >= LONG_FROM_S else OFTEN_S

    @property
    def reloads_s(self) -> tuple[float, ...]:
        """Return when nginx is reloaded."""
        until_s = self.seconds * RELOADED_PART
        every_s = max(RELOAD_EVERY_LEAST_S, until_s / RELOADS)
        return tuple(every_s * number for number in range(1, int(until_s / every_s) + 1))
