"""Complaints about clients that the log has once each, because no client may fill the disk. Pure."""

# Further kinds are not logged.
MOST_KINDS = 100


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
