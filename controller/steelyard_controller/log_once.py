"""Complaints about clients that the log has once, or once a minute: no client may fill the disk. Pure."""

from collections.abc import Callable

# Further kinds are not logged.
MOST_KINDS = 100

# Often enough to show that it still goes on.
EVERY_S = 60.0


class LogOnce:
    """The kinds of complaints that the log has already."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def is_first(self, kind: str) -> bool:
        """Return whether to log a complaint of this kind now; another one of it is not the first."""
        if kind in self._logged or len(self._logged) >= MOST_KINDS:
            return False
        self._logged.add(kind)
        return True


class LogRarely:
    """The time of the last complaint about one matter, which many clients may cause for hours."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._logged_s: float | None = None

    def is_due(self) -> bool:
        """Return whether to log a complaint now: the last one is a minute old, or there was none."""
        now_s = self._clock()
        if self._logged_s is not None and now_s - self._logged_s < EVERY_S:
            return False
        self._logged_s = now_s
        return True
