"""Tells how far the demo is: one line that changes on a terminal, plain lines every ten seconds elsewhere."""

from collections.abc import Sequence
from typing import TextIO

from steelyard_loadtest.demo.options import Plan
from steelyard_loadtest.demo.records import Observed
from steelyard_loadtest.demo.table import percent

PLAIN_EVERY_S = 10
BETWEEN_S = 8  # what starting locust and draining it take, about


class Progress:
    """Progress of a demo of `phases` phases on `stream`."""

    def __init__(self, stream: TextIO, phases: int) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._left = phases
        self._next_plain_s = 0.0

    def begin_phase(self) -> None:
        """Count one phase more."""
        self._left -= 1
        self._next_plain_s = 0.0

    def say(self, text: str) -> None:
        """Show what is being done."""
        if self._live:
            self._stream.write(f"\r\x1b[K{text}")
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def tick(self, plan: Plan, t_s: float, *, burning: bool, observed: Sequence[Observed]) -> None:
        """Show how far the phase is, if it is time to."""
        if not self._live:
            if t_s < self._next_plain_s:
                return
            self._next_plain_s += PLAIN_EVERY_S
        self.say(describe(plan, t_s, burning=burning, observed=observed, phases_left=self._left))

    def done(self) -> None:
        """Clear the changing line."""
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def describe(plan: Plan, t_s: float, *, burning: bool, observed: Sequence[Observed], phases_left: int) -> str:
    """Say in a line where the phase is, the time left in all, and the newest weights."""
    left_s = round(plan.seconds - t_s + phases_left * (plan.seconds + BETWEEN_S))
    parts = [f"{plan.title}: {t_s:.0f} of {plan.seconds} s, {left_s // 60}:{left_s % 60:02} left"]
    if burning:
        parts.append("burning CPU")
    if not plan.static:
        newest = {entry.server: entry.weight_share for entry in observed[-len(plan.servers) :]}
        if newest:
            weights = ", ".join(f"{name} {percent(share)}" for name, share in newest.items())
            parts.append(f"weights {weights}")
    return " · ".join(parts)
