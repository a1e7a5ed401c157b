"""The event loop: a heap of (time, order, what to do).

Pure. Nine times the requests a second of SimPy 4.1 on the same M/M/4 queue; with all that the model does
around it, still 2.4 to 3.2 times (docs/decisions/0012-the-simulator.md).
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[[float, Any], object]


class Engine:
    """Simulated time. Of two events at one moment, the one that was asked for first comes first."""

    __slots__ = ("_heap", "_order", "events")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Action, Any]] = []
        self._order = 0
        self.events = 0

    def at(self, when_s: float, action: Action, argument: Any = None) -> None:  # noqa: ANN401 - the action's own
        """Call `action(when_s, argument)` at that time, which must not lie in the past."""
        self._order += 1
        heappush(self._heap, (when_s, self._order, action, argument))

    def run(self, until_s: float) -> None:
        """Take events in order, up to and including `until_s`; later ones stay."""
        heap, taken = self._heap, 0
        while heap and heap[0][0] <= until_s:
            now_s, _, action, argument = heappop(heap)
            action(now_s, argument)
            taken += 1
        self.events += taken
