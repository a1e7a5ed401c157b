"""The uptime of a sampled program: a server that has just started starts slowly. I/O only, Linux only.

An agent may be restarted beside its server, so its own start means nothing.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

import psutil

from steelyard_agent.readers.files import below, read

# In /proc/PID/stat, behind the name in brackets: proc(5) numbers `starttime` 22, and that is field 3.
STARTTIME = 22 - 3


def machine_s(root: Path) -> float | None:
    """Return the seconds since the machine's boot; None if unknown."""
    if not psutil.LINUX:
        return None
    with suppress(OSError, ValueError, IndexError):
        return float(read(below(root, "/proc/uptime")).split()[0])
    return None


def container_began_s(root: Path) -> float | None:
    """Return the start of this container's process 1, by `since_boot_s`; None if unknown."""
    with suppress(OSError, ValueError, IndexError):
        fields = read(below(root, "/proc/1/stat")).rpartition(b")")[2].split()
        return int(fields[STARTTIME]) / os.sysconf("SC_CLK_TCK")
    return None


def since_boot_s() -> float:
    """Return the kernel's seconds since boot, suspended ones too."""
    # Not /proc/uptime, which some containers' runtimes replace by the container's own.
    return time.clock_gettime(time.CLOCK_BOOTTIME)
