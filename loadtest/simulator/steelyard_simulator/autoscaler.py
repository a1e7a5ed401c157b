"""Servers that a HorizontalPodAutoscaler starts and stops; the law sees only running ones. Pure.

    wanted = ceil(running * x/target)     if x, averaged over the last minute, is over a tenth off the target

New servers are ready a minute later. A server stays while any ratio of the last five minutes wanted it.
"""

from collections import deque
from math import ceil

import numpy as np
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.headroom import Carried, ended_per_s, headroom
from steelyard_controller.laws.snapshot import Snapshot

from steelyard_simulator.engine import Engine
from steelyard_simulator.model import Floats, ScaledBy

# Kubernetes' own values; the window that the recording rule averages; and the time until a pod is ready.
EVERY_S, TOLERANCE, DOWN_S, OVER_S, STARTUP_S = 15.0, 0.1, 300.0, 60.0, 60.0
LEAST = 3
# Carried over possible requests, at a load of 0.7. If CPU is the only limit, the second is equivalent.
TARGETS = {"headroom": 0.75, "cpu": 0.75 * 0.7}


class Pool:
    """The numbers of servers that are running and that are kept; each start gives its server a new name."""

    def __init__(self, engine: Engine, by: ScaledBy, servers: int) -> None:
        self._engine, self._by, self._carried = engine, by, Carried()
        self.there = self._kept = LEAST
        self.names = [str(place) for place in range(servers)]
        self._used: deque[tuple[float, float]] = deque([(TARGETS[by], 1.0)], maxlen=round(OVER_S))
        self._wanted: deque[int] = deque(maxlen=round(DOWN_S / EVERY_S))
        engine.at(EVERY_S, self._scale)

    def note(self, decision: Decision, snapshot: Snapshot, cpu: Floats) -> None:
        """Record the use of the running servers after a tick."""
        ended = ended_per_s(snapshot.completed, snapshot.failed, snapshot.tick_s)
        self._carried = self._carried.after(float(ended), snapshot.tick_s)
        share = decision.published / decision.published.sum()
        room = headroom(decision, (), share, share > 0, self._carried.per_s)
        if self._by == "cpu":
            self._used.append((float(np.nanmean(cpu[: self.there])), 1.0))
        elif room.carries_per_s is not None and room.could_carry_per_s is not None:
            self._used.append((room.carries_per_s, room.could_carry_per_s))

    def _scale(self, now_s: float, _nothing: object) -> None:
        self._engine.at(now_s + EVERY_S, self._scale)
        used, of = np.sum(self._used, axis=0)
        ratio = used / of / TARGETS[self._by]
        wanted = self._kept if abs(ratio - 1.0) <= TOLERANCE else ceil(self.there * ratio)
        self._wanted.append(min(max(wanted, LEAST), len(self.names)))
        for place in range(self._kept, self._wanted[-1]):
            self._engine.at(now_s + STARTUP_S, self._start, place)
        self._kept = max(self._wanted[-1], min(self._kept, max(self._wanted)))
        self.there = min(self.there, self._kept)

    def _start(self, now_s: float, place: int) -> None:
        self.there, self.names[place] = place + 1, f"{place}-{now_s:.0f}"
