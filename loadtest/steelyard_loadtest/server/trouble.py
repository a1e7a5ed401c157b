"""A server's trouble: it fails at once or answers late for a while, or its cache is cold. Pure."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    until_s: float
    late_s: float


class Troubles:
    """The trouble that was asked for last; `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = _Trouble(until_s=clock(), late_s=0.0)
        self._size = self._missing = 0
        self._owed, self._times = 0.0, 1

    def fail(self, seconds: float) -> None:
        """Fail from now on for this time."""
        self._last = _Trouble(until_s=self._clock() + seconds, late_s=0.0)

    def slow(self, seconds: float, late_s: float) -> None:
        """Answer late from now on for this time."""
        self._last = _Trouble(until_s=self._clock() + seconds, late_s=late_s)

    def cold(self, size: int, times: int) -> None:
        """Have an empty cache of `size` entries, all asked for equally often; a miss is `times` the work."""
        self._size = self._missing = size
        self._owed, self._times = 0.0, times

    def stop(self) -> None:
        """End it."""
        self._last = _Trouble(until_s=self._clock(), late_s=0.0)
        self._missing = 0

    def work_times(self) -> int:
        """Return the next request's work relative to a hit's; a miss fills an entry.

        A request misses with the probability missing / size. The misses are spread evenly, without chance.
        """
        if not self._missing:
            return 1
        self._owed += self._missing / self._size
        if self._owed < 1:
            return 1
        self._owed -= 1
        self._missing -= 1
        return self._times

    @property
    def fails(self) -> bool:
        """Return whether requests fail now."""
        return self._is_now and not self._last.late_s

    @property
    def late_s(self) -> float:
        """Return how much later than usual answers are now; 0 without trouble."""
        return self._last.late_s if self._is_now else 0.0

    @property
    def _is_now(self) -> bool:
        return self._clock() < self._last.until_s
