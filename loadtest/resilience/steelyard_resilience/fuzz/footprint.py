"""What an attack leaves in a daemon: its processes, descriptors, memory and log from outside (I/O)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard_loadtest.machine.child_process import resident_bytes

NEVER_IN_A_LOG = (
    "Traceback", "[emerg]", "[alert]", "stack traceback", "attempt to", "runtime error", "core dumped",
)  # fmt: skip

# The longest deadline that a connection of ours has anywhere is the agent's and the agent-check's 2 s.
LET_GO_S = 15.0

# Connections that nginx keeps for reuse, two to Memcached and some to its servers; a leak has no bound.
MOST_KEPT = 4

MEGABYTE = 2**20

# Allocators keep what they had at a peak; a leak of a kilobyte an input would be more within any run.
MOST_GROWTH = 8 * MEGABYTE


@dataclass(frozen=True, slots=True)
class Footprint:
    """A daemon at one moment."""

    pids: tuple[int, ...]
    descriptors: int
    resident_bytes: int


def footprint(pids: Sequence[int]) -> Footprint:
    """Measure the processes; those that are gone count for nothing."""
    alive = {pid: Path(f"/proc/{pid}") for pid in pids if Path(f"/proc/{pid}/fd").exists()}
    return Footprint(
        pids=tuple(alive),
        descriptors=sum(len(list((folder / "fd").iterdir())) for folder in alive.values()),
        resident_bytes=resident_bytes(alive),
    )


def why_not_as_before(before: Footprint, pids: Sequence[int], *, let_go_s: float = LET_GO_S) -> str | None:
    """Return what is left of the attack once connections had their time to end; None: nothing."""
    deadline = time.monotonic() + let_go_s
    while True:
        now = footprint(pids)
        if now.pids != before.pids:
            return f"its processes were {before.pids} and are {now.pids}"
        if now.descriptors <= before.descriptors + MOST_KEPT:
            break
        if time.monotonic() > deadline:
            return f"it had {before.descriptors} descriptors and has {now.descriptors}, {let_go_s:g} s later"
        time.sleep(0.1)
    grown = now.resident_bytes - before.resident_bytes
    if grown > MOST_GROWTH:
        return f"its memory grew by {grown / MEGABYTE:.1f} MB, more than {MOST_GROWTH / MEGABYTE:g}"
    return None


def bad_lines(log: Path) -> list[str]:
    """Return the lines of a log that no input may ever cause, three at most."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    bad = [number for number, line in enumerate(lines) if any(word in line for word in NEVER_IN_A_LOG)]
    return [_with_error(lines, number)[:300] for number in bad[:3]]


def _with_error(lines: Sequence[str], number: int) -> str:
    # What Python's traceback is about stands in its last line, the first that is not indented.
    if "Traceback" not in lines[number]:
        return lines[number]
    last = (line for line in lines[number + 1 :] if line and not line.startswith(" "))
    return f"{lines[number]} {next(last, '')}"
