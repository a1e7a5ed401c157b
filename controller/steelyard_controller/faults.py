"""The current faults, by part: each is logged at its beginning and end, and shown in between."""

import logging

log = logging.getLogger("steelyard.controller")


class Faults:
    """The faults of the controller, or of one upstream (`of`); `now` has them by part."""

    def __init__(self, of: str | None = None) -> None:
        self._of = {} if of is None else {"upstream": of}
        self._prefix = "" if of is None else f"{of}: "
        self.now: dict[str, str] = {}

    def lines(self) -> tuple[str, ...]:
        """Return a line for each part that does not work."""
        return tuple(f"{part}: {fault}" for part, fault in self.now.items())

    def note(self, part: str, fault: str | None) -> None:
        """Set a part's fault; None: the part works."""
        if fault is None and part not in self.now:
            return  # The usual case, for thousands of upstreams at every tick.
        about = {**self._of, "part": part}
        if fault is None:
            del self.now[part]
            log.info("%s%s works again", self._prefix, part, extra={"event": "mended", **about})
        else:
            if part not in self.now:
                log.warning(
                    "%s%s: %s; the loop goes on", self._prefix, part, fault, extra={"event": "fault", **about}
                )
            self.now[part] = fault
