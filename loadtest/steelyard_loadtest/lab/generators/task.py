"""What a generator's own process is told on its command line. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A load to make: see Job. It waits finish_s for answers that are under way at the end."""

    url: str
    level: float
    seconds: float
    warm_up_s: float
    timeout_s: float
    finish_s: float
    folder: Path

    def arguments(self) -> list[str]:
        """Return it as command line arguments."""
        numbers = (self.level, self.seconds, self.warm_up_s, self.timeout_s, self.finish_s)
        return [self.url, *map(repr, numbers), str(self.folder)]


def parse_task(arguments: Sequence[str]) -> Task:
    """Return the task of `Task.arguments`. Raises ValueError."""
    url, level, seconds, warm_up_s, timeout_s, finish_s, folder = arguments
    return Task(
        url=url,
        level=float(level),
        seconds=float(seconds),
        warm_up_s=float(warm_up_s),
        timeout_s=float(timeout_s),
        finish_s=float(finish_s),
        folder=Path(folder),
    )
