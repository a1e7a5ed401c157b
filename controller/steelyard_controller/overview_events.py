"""Makes the overviews that `tick` events show, beside the ticks and within a share of one CPU.

I/O: a thread, and pauses. A tick only notes its upstream; what was noted again before its turn has one
overview, of its newest outcome. The longest noted come first, so each upstream has its turn.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from steelyard_controller.events import Listeners
from steelyard_controller.tick.cycle import Cycle

log = logging.getLogger("steelyard.controller")

# Of one CPU. An overview takes 0.7 ms of ten servers, 20 ms of a thousand: three hundred small upstreams have
# one at each tick of a second, two thousand one in seven seconds, ten thousand servers one a second.
SHARE = 0.2

# A hop to the thread costs a tenth of a millisecond; in this time it makes some thirty small ones.
TURN_S = 0.02


class OverviewEvents:
    """The upstreams that have been noted, until their overviews are made by `made`, as JSON."""

    def __init__(
        self,
        listeners: Listeners,
        cycles: Callable[[], Mapping[str, Cycle]],
        made: Callable[[Cycle], bytes | None],
        *,
        used: Callable[[], float] = time.thread_time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._listeners = listeners
        self._cycles = cycles
        self._made = made
        self._used = used
        self._pause = pause
        self._noted: dict[str, None] = {}
        self._any = asyncio.Event()

    def note(self, upstream: str) -> None:
        """Have an overview of an upstream made, where somebody listens."""
        if self._listeners.any_for(upstream):
            self._noted.setdefault(upstream)
            self._any.set()

    async def run(self) -> None:
        """Make what is noted, for ever."""
        while True:
            await self._any.wait()
            cycles, noted = self._cycles(), self._noted
            self._noted = {}
            due = [cycles[name] for name in noted if name in cycles and self._listeners.any_for(name)]
            if not due:
                self._any.clear()
                continue
            made, used_s = await asyncio.to_thread(self._turn, due)
            left = dict.fromkeys(cycle.name for cycle in due if cycle.name not in made)
            # What was noted meanwhile may be newer than what was read: it has its turn, after those.
            self._noted = left | self._noted
            for name, overview in made.items():
                if overview is not None:
                    self._listeners.show(name, overview)
            await self._pause(used_s / SHARE - used_s)

    def _turn(self, due: Sequence[Cycle]) -> tuple[dict[str, bytes | None], float]:
        """Return the overviews that there was time for, at least one, and the CPU seconds that they took."""
        began_s, made = self._used(), dict[str, bytes | None]()
        for cycle in due:
            try:
                made[cycle.name] = self._made(cycle)
            except Exception:
                log.exception("%s: its overview cannot be made", cycle.name)
                made[cycle.name] = None
            if self._used() - began_s >= TURN_S:
                break
        return made, self._used() - began_s
