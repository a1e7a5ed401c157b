"""Values that several readers need at one moment, read once: pods share the machine and their parent groups.

Without it the agent of 110 pods would read /proc/meminfo, and the memory of the pods' parent group,
110 times a second. Pure: the clock and the reading come in as arguments.
"""

from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")

# A tick of many pods takes some tens of milliseconds, and the shortest interval is twice this.
MOMENT_S = 0.05


class Moment:
    """Values by name, forgotten when the next moment begins; with a span of 0 at once."""

    def __init__(self, span_s: float = MOMENT_S) -> None:
        self._span_s = span_s
        self._began_at_s: float | None = None
        self._values: dict[str, object] = {}

    def at(self, now_s: float) -> None:
        """Go on to `now_s`, by a monotonic clock."""
        if self._began_at_s is None or not 0 <= now_s - self._began_at_s < self._span_s:
            self._began_at_s = now_s
            self._values.clear()

    def read(self, name: str, reader: Callable[[], T]) -> T:
        """Return `reader()`, or its result at this moment; an exception is not kept."""
        if name not in self._values:
            self._values[name] = reader()
        return cast(T, self._values[name])
