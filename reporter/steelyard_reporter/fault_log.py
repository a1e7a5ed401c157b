"""Faults in the log: a line when one begins or changes, a line when it is over, nothing in between."""

import logging
from collections.abc import Mapping

log = logging.getLogger("steelyard_reporter")


class FaultLog:
    """The faults that are known, by topic."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def tell(self, topic: str, faults: Mapping[str, str]) -> None:
        """Log what is new among the faults of a topic, and what is over: whatever is not named any more."""
        before = {key for key in self._known if key.startswith(f"{topic}:")}
        for name, text in faults.items():
            key = f"{topic}:{name}"
            before.discard(key)
            if self._known.get(key) != text:
                self._known[key] = text
                log.warning("%s", text)
        for key in before:
            log.info("no longer: %s", self._known.pop(key))
