"""The traces of an attack in a daemon: processes, descriptors, memory and log, from outside (I/O)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard_loadtest.machine.child_process import resident_bytes

NEVER_IN_A_LOG = (
    "Traceback", "[emerg]", "[alert]", "stack traceback", "attempt to", "runtime error", "core dumped",
)  # fmt: skip

# The longest deadline of a connection is 2 s, in the agent and the agent-check.
LET_GO_S = 15.0

# nginx keeps idle connections, two to Memcached and some to its servers; a leak has no bound.
MOST_KEPT = 4

MEGABYTE = 2**20

# Allocators keep their peak; a leak of a kilobyte an input would exceed this in any run.
MOST_GROWTH = 8 * MEGABYTE


@dataclass(frozen=True, slots=True)
class Footprint:
    """A daemon at one moment."""

    pids: tuple[int, ...]
    descriptors: int
    resident_bytes: int


def footprint(pids: Sequence[int]) -> Footprint:
    """Measure the processes, except those that have ended."""
    alive = {pid: Path(f"/proc/{pid}") for pid in pids if Path(f"/proc/{pid}/fd").exists()}
    return Footprint(
        pids=tuple(alive),
        descriptors=sum(len(list((folder / "fd").iterdir())) for folder in alive.values()),
        resident_bytes=resident_bytes(alive),
    )


def why_not_as_before(before: Footprint, pids: Sequence[int], *, let_go_s: float = LET_GO_S) -> str | None:
    """Return the trace of an attack after let_go_s for connections to end; None if there is none."""
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
    """Return up to three lines of a log that no input may ever cause."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    bad = [number for number, line in enumerate(lines) if any(word in line for word in NEVER_IN_A_LOG)]
    return [_with_error(lines, number)[:300] for number in bad[:3]]


def _with_error(lines: Sequence[str], number: int) -> str:
    # The error of Python's traceback is in its last line, the first without indentation.
    if "Traceback" not in lines[number]:
        return lines[number]
    last = (line for line in lines[number + 1 :] if line and not line.startswith(" "))
    return f"{lines[number]} {next(last, '')}"
