"""What the process scope is told to watch. Pure data."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One of: a pid; a file that holds one and may change; a TCP port that is listened on; a systemd unit."""

    pid: int | None = None
    pid_file: Path | None = None
    port: int | None = None
    unit: str | None = None
