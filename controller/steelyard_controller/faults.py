"""The current faults, by part: each is logged at its beginning and end, and shown in between."""

import logging
from collections.abc import Callable

from steelyard_controller.fault_causes import Fault

log = logging.getLogger("steelyard.controller")


def log_change(part: str, fault: Fault, begins: bool) -> None:
    """Log that a part of the controller has a fault now, or that it works again."""
    if begins:
        log.warning("%s: %s; the loop goes on", part, fault, extra={"event": "fault", "part": part})
    else:
        log.info("%s works again", part, extra={"event": "mended", "part": part})


class Faults:
    """The faults of the controller, or of one upstream; `now` has them by part, `shared` further lines.

    `changed` is called with each fault when it begins (True) and when it has ended.
    """

    def __init__(self, changed: Callable[[str, Fault, bool], None] = log_change) -> None:
        self._changed = changed
        self.now: dict[str, Fault] = {}
        self.shared: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """Return a line for each part that does not work."""
        return (*(f"{part}: {fault}" for part, fault in self.now.items()), *self.shared)

    def drop(self, part: str) -> None:
        """Forget a part's fault without a word: the fault of another part covers it now."""
        self.now.pop(part, None)

    def note(self, part: str, fault: Fault | str | None) -> None:
        """Set a part's fault; None: the part works."""
        previous = self.now.get(part)
        if fault is None:
            if previous is not None:  # None is the usual case, for thousands of upstreams at every tick.
                del self.now[part]
                self._changed(part, previous, False)
            return
        self.now[part] = noted = Fault(fault) if isinstance(fault, str) else fault
        if previous is None:
            self._changed(part, noted, True)
