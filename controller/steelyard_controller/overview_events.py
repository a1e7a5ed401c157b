"""Makes the overviews for `tick` events, beside the ticks and within a share of one CPU.

I/O: a thread, and pauses. A tick only notes its upstream. An upstream that is noted again before its turn
gets one overview, of its newest outcome, for each requested view. The upstreams and views that were noted
first come first, so each has its turn.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence

from steelyard_controller.events import Listeners
from steelyard_controller.tick.cycle import Cycle

log = logging.getLogger("steelyard.controller")

Noted = tuple[str, Hashable]

# The share of one CPU. An overview takes 0.7 ms for ten servers, 20 ms for a thousand. So three hundred small
# upstreams have one each second, two thousand have one in seven seconds, ten thousand servers one a second.
CPU_SHARE = 0.2

# The time in the thread before others have the CPU: some thirty small overviews. A hop to the thread and back
# costs a tenth of a millisecond.
TURN_S = 0.02


class OverviewEvents:
    """The noted upstreams and views, until `make` has made their overviews, as JSON."""

    def __init__(
        self,
        listeners: Listeners,
        cycles: Callable[[], Mapping[str, Cycle]],
        make: Callable[[Cycle, Hashable], bytes | None],
        *,
        used: Callable[[], float] = time.thread_time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._listeners = listeners
        self._cycles = cycles
        self._make = make
        self._used = used
        self._pause = pause
        self._noted: dict[Noted, None] = {}
        self._any = asyncio.Event()

    def note(self, upstream: str) -> None:
        """Note an upstream for new overviews if it has subscribers."""
        if self._listeners.any_for(upstream):
            for view in self._listeners.views_of(upstream):
                self._noted.setdefault((upstream, view))
            self._any.set()

    async def run(self) -> None:
        """Make the noted overviews, until cancelled."""
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
            overviews, used_s = await asyncio.to_thread(self._turn, due)
            left = dict.fromkeys(
                (cycle.name, view) for cycle, view in due if (cycle.name, view) not in overviews
            )
            # Upstreams noted meanwhile may have a newer outcome than the one used: they have a turn later.
            self._noted = left | self._noted
            for (name, view), overview in overviews.items():
                if overview is not None:
                    self._listeners.show(name, overview, view)
            await self._pause(used_s / CPU_SHARE - used_s)

    def _turn(self, due: Sequence[tuple[Cycle, Hashable]]) -> tuple[dict[Noted, bytes | None], float]:
        """Return the overviews that fit into a turn, at least one, and their CPU seconds."""
        began_s, overviews = self._used(), dict[Noted, bytes | None]()
        for cycle, view in due:
            try:
                overviews[cycle.name, view] = self._make(cycle, view)
            except Exception:
                log.exception("%s: its overview cannot be made", cycle.name)
                overviews[cycle.name, view] = None
            if self._used() - began_s >= TURN_S:
                break
        return overviews, self._used() - began_s
