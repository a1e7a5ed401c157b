"""A busy wait: uses the CPU that its parent's requests leave of a limit, and gives way to everything.

Run as `python spinner.py SECONDS PARENT_PID CORES`. Its policy is SCHED_IDLE, so each process that wants to
run takes its CPU at once. Parent and spinner together use

    cores * (time since the begin)

unless others have the CPU. It is a process and not a thread, because a thread at SCHED_IDLE that holds
Python's lock would stop the server while it waits for a CPU.
"""

import os
import sys
import time

CPU_CLOCK = 2
"""CPUCLOCK_SCHED of the kernel: a process's CPU time in ns, of all its threads."""

MOST_OWED_S = 0.02
"""It does not catch up on a longer time in which others had the CPU."""


def spin(deadline_s: float, parent: int, cores: float) -> None:
    """Wait busily until the monotonic clock reads deadline_s, or `parent` has ended."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    clock = ~parent << 3 | CPU_CLOCK
    began_s, before_s = time.monotonic(), time.clock_gettime(clock) + time.process_time()
    while time.monotonic() < deadline_s and os.getppid() == parent:
        used_s = time.clock_gettime(clock) + time.process_time() - before_s
        owed_s = (time.monotonic() - began_s) * cores - used_s
        began_s += max(owed_s - MOST_OWED_S * cores, 0.0) / cores
        if owed_s > 0:
            for _ in range(20_000):  # about 0.5 ms
                pass
        else:
            time.sleep(min(0.001 - owed_s / cores, MOST_OWED_S))


if __name__ == "__main__":
    try:
        spin(time.monotonic() + float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    except OSError:  # the parent ended between two lines
        sys.exit(0)
