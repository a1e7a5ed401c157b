"""What the kernel says of a process, read from /proc. Pure."""

import re
from collections.abc import Iterable

from steelyard_loadtest.machine.errors import UnreadableError


def parse_schedstats(texts: Iterable[str]) -> float:
    """Return the CPU seconds of threads from their /proc/PID/task/TID/schedstat."""
    return sum(int(text.split()[0]) for text in texts) / 1e9


def parse_resident(status: str) -> int:
    """Return the resident bytes from /proc/PID/status. Raises UnreadableError."""
    match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    if match is None:
        raise UnreadableError("/proc/PID/status has no VmRSS")
    return int(match[1]) * 1024


def parse_reaped_ticks(stat: str) -> int:
    """Return the CPU time of a process's children that have ended, in clock ticks, from /proc/PID/stat."""
    # The name in parentheses may hold anything; cutime and cstime are the 16th and 17th fields (proc(5)).
    after_name = stat.rpartition(")")[2].split()
    return int(after_name[13]) + int(after_name[14])


def parse_group(stat: str) -> int:
    """Return a process's process group from /proc/PID/stat."""
    return int(stat.rpartition(")")[2].split()[2])


def parse_state(stat: str) -> str:
    """Return a process's state from /proc/PID/stat: R, S, D, T (stopped by a signal), Z or another letter."""
    return stat.rpartition(")")[2].split()[0]
