"""The constant load beside which everything happens, counted while it goes on (I/O)."""

import time
from collections import Counter
from pathlib import Path

from steelyard_loadtest.chaos.load.running import TIMEOUT_S
from steelyard_loadtest.chaos.load.running import Load as Running


class Load:
    """`rate_per_s` checked requests a second for so long, from now on. Raises ProgramError."""

    def __init__(self, url: str, rate_per_s: float, seconds: float, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._running = Running(url, rate_per_s, folder)
        self._counted = 0
        self.began_s = self._running.began_s
        """When the first request was due, on time.monotonic's clock."""
        self._until_s = self.began_s + seconds
        self.sent = 0
        self.failures: Counter[str] = Counter()
        self.first_failure_s: float | None = None

    def poll(self) -> bool:
        """Count what has ended since the last time; say whether the load is over. Raises ProgramError."""
        self._running.read()
        requests = self._running.requests
        # What is due after the end is only there because the generator is stopped from outside.
        ended = [one for one in requests[self._counted :] if one.due_s < self._until_s]
        self._counted = len(requests)
        self.sent += len(ended)
        failed = [one for one in ended if one.failure]
        self.failures.update(one.failure for one in failed)
        if failed and self.first_failure_s is None:
            self.first_failure_s = failed[0].due_s - self.began_s
        now_s = time.monotonic()
        if now_s < self._until_s:
            return False
        return now_s > self._until_s + TIMEOUT_S + 1 or self._running.complete(self._until_s)

    def stop(self) -> None:
        """End it at once. Harmless when it has ended."""
        self._running.stop()
