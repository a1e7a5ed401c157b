"""What the kernel says of a process's memory, threads and CPU time, read from /proc. Pure."""

import re
from dataclasses import dataclass

from steelyard_loadtest.machine.errors import UnreadableError

_FIELD = re.compile(r"^(RssAnon|VmSwap|VmRSS|Threads):\s+(\d+)(?: kB)?$", re.MULTILINE)
KB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Of /proc/PID/status: anonymous memory (resident or swapped out), resident memory, threads."""

    private_bytes: int
    resident_bytes: int
    threads: int


def parse_status(text: str) -> Status:
    """Read /proc/PID/status. Raises UnreadableError for a process that has ended and waits to be reaped."""
    found = {name: int(number) for name, number in _FIELD.findall(text)}
    try:
        return Status(
            private_bytes=(found["RssAnon"] + found["VmSwap"]) * KB,
            resident_bytes=found["VmRSS"] * KB,
            threads=found["Threads"],
        )
    except KeyError as missing:
        raise UnreadableError(f"/proc/PID/status has no {missing.args[0]}") from None


def parse_cpu_ticks(stat: str) -> int:
    """Return the user and system time from /proc/PID/stat, in clock ticks."""
    # The name in parentheses may hold anything; utime and stime are the 14th and 15th fields (proc(5)).
    after_name = stat.rpartition(")")[2].split()
    return int(after_name[11]) + int(after_name[12])
