"""A server's trouble for a while: it fails at once, or answers late without being busy. Pure."""

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

    def fail(self, seconds: float) -> None:
        """Fail from now on for this time."""
        self._last = _Trouble(until_s=self._clock() + seconds, late_s=0.0)

    def slow(self, seconds: float, late_s: float) -> None:
        """Answer late from now on for this time."""
        self._last = _Trouble(until_s=self._clock() + seconds, late_s=late_s)

    def stop(self) -> None:
        """End it."""
        self._last = _Trouble(until_s=self._clock(), late_s=0.0)

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
