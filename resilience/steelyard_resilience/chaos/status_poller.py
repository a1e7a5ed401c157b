"""Looks at a stage ten times a second, in threads of its own (I/O)."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from steelyard_resilience.chaos.fault import RUNGS, Look
from steelyard_resilience.stage.hosts import UPSTREAM

if TYPE_CHECKING:
    from steelyard_resilience.stage.stage import Stage

EVERY_S = 0.1

APART = 4.0
"""Times what an answer took, until the next look: a page of 10,000 servers costs much CPU, and looks would be
what slows requests. What does not answer costs nothing, and is looked at as ever."""

AT_MOST_S = 1.0
"""But no longer: so late is then what a look tells."""

AT_ONCE = 8
"""A look at hosts that do not answer takes a few seconds; the next ones are not to wait for it."""


class StatusPoller:
    """Looks until it is left. `looks` only grows; it is in the order in which the answers came."""

    def __init__(self, stage: "Stage") -> None:
        self.looks: list[Look] = []
        self._stage = stage
        self._next_s, self._not_before_s = time.monotonic(), 0.0
        self._over, self._turn, self._adding = threading.Event(), threading.Lock(), threading.Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE, "look")

    def __enter__(self) -> Self:
        for _ in range(AT_ONCE):
            self._pool.submit(self._look_again_and_again)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._pool.shutdown()

    def _look_again_and_again(self) -> None:
        while True:
            with self._turn:
                # Late turns are left out, not made up for.
                if self._over.wait(max(self._next_s - time.monotonic(), 0.0)):
                    return
                self._next_s = max(self._next_s + EVERY_S, self._not_before_s, time.monotonic())
            self._look()

    def _look(self) -> None:
        try:
            asked_s = time.monotonic()
            if (status := self._stage.status()) is not None:
                now_s = time.monotonic()
                self._not_before_s = now_s + min(APART * (now_s - asked_s), AT_MOST_S)
            rung, not_well = rung_of(status), self._stage.why_not_well()
        except Exception as error:
            rung, not_well = None, f"it could not be seen: {type(error).__name__} {error}"
        # Stamped when all the answers were in: a look that waited tells nothing of the time before.
        with self._adding:
            self.looks.append(Look(at_s=time.monotonic(), rung=rung, not_well=not_well))


def rung_of(status: Mapping[str, object] | None) -> str | None:
    """Return the upstream's rung in nginx's status document; None when it tells none."""
    document: object = status
    for name in ("upstreams", UPSTREAM, "rung"):
        document = document.get(name) if isinstance(document, Mapping) else None
    return document if isinstance(document, str) and document in RUNGS else None
