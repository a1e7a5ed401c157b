"""Makes the overviews that `tick` events show, beside the ticks and within a share of one CPU.

I/O: a thread, and pauses. A tick only notes its upstream; what was noted again before its turn has one
overview, of its newest outcome, for each view that somebody has of it. The longest noted come first, so each
upstream and view has its turn.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence

from steelyard_controller.events import Listeners
from steelyard_controller.tick.cycle import Cycle

log = logging.getLogger("steelyard.controller")

Noted = tuple[str, Hashable]

# Of one CPU. An overview takes 0.7 ms of ten servers, 20 ms of a thousand: three hundred small upstreams have
# one at each tick of a second, two thousand one in seven seconds, ten thousand servers one a second.
SHARE = 0.2

# A hop to the thread costs a tenth of a millisecond; in this time it makes some thirty small ones.
TURN_S = 0.02


class OverviewEvents:
    """The upstreams and views that have been noted, until their overviews are made by `made`, as JSON."""

    def __init__(
        self,
        listeners: Listeners,
        cycles: Callable[[], Mapping[str, Cycle]],
        made: Callable[[Cycle, Hashable], bytes | None],
        *,
        used: Callable[[], float] = time.thread_time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._listeners = listeners
        self._cycles = cycles
        self._made = made
        self._used = used
        self._pause = pause
        self._noted: dict[Noted, None] = {}
        self._any = asyncio.Event()

    def note(self, upstream: str) -> None:
        """Have overviews of an upstream made, where somebody listens."""
        if self._listeners.any_for(upstream):
            for view in self._listeners.views_of(upstream):
                self._noted.setdefault((upstream, view))
            self._any.set()

    async def run(self) -> None:
        """Make what is noted, for ever."""
        while True:
            await self._any.wait()
            cycles, noted = self._cycles(), self._noted
            self._noted = {}
            due = [
                (cycles[name], view)
                for name, view in noted
                if name in cycles and view in self._listeners.views_of(name)
            ]
            if not due:
                self._any.clear()
                continue
            made, used_s = await asyncio.to_thread(self._turn, due)
            left = dict.fromkeys((cycle.name, view) for cycle, view in due if (cycle.name, view) not in made)
            # What was noted meanwhile may be newer than what was read: it has its turn, after those.
            self._noted = left | self._noted
            for (name, view), overview in made.items():
                if overview is not None:
                    self._listeners.show(name, overview, view)
            await self._pause(used_s / SHARE - used_s)

    def _turn(self, due: Sequence[tuple[Cycle, Hashable]]) -> tuple[dict[Noted, bytes | None], float]:
        """Return the overviews that there was time for, at least one, and the CPU seconds that they took."""
        began_s, made = self._used(), dict[Noted, bytes | None]()
        for cycle, view in due:
            try:
                made[cycle.name, view] = self._made(cycle, view)
            except Exception:
                log.exception("%s: its overview cannot be made", cycle.name)
                made[cycle.name, view] = None
            if self._used() - began_s >= TURN_S:
                break
        return made, self._used() - began_s
