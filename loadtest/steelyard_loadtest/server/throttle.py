"""Holds a process and its children to a CPU limit by stopping and continuing them; needs no root.

Run as `python -m steelyard_loadtest.server.throttle PID CORES`. It leaves the
caller's tree before it begins (fork, new session), so that its own CPU is not
taken for the server's, and ends when PID ends. Debian's cpulimit 2.8 does not
do: it has no -i, and with -m every child gets a limit of its own, and two
burners beside a server limited to 0.2 cores were measured to use 1.5.

If this process is killed with SIGKILL while the tree stands still, the tree
stays so until a SIGCONT; every other end continues it.
"""

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path

from steelyard_loadtest.server.budget import Step, full, next_step

CPUCLOCK_SCHED = 2  # linux/posix-timers.h: the clock of a process's run time, in ns, not in ticks


def cpu_seconds(pid: int) -> float | None:
    """Read the CPU time of all threads of a process; None when it is gone."""
    try:
        return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)
    except OSError:
        return None


def children_of(pid: int) -> list[int]:
    """List the processes that the main thread of a process started."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Tree:
    """A server and its children: what they used, and stop or continue for all of them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen_s = {pid: cpu_seconds(pid) or 0.0}

    def used_since_last_call(self) -> float:
        """Give the CPU seconds used since the last call; a new child counts in full."""
        used_s = 0.0
        seen_s = {}
        for member in [self._pid, *children_of(self._pid)]:
            now_s = cpu_seconds(member)
            if now_s is not None:
                used_s += now_s - self._seen_s.get(member, 0.0)
                seen_s[member] = now_s
        self._seen_s = seen_s or self._seen_s  # a dead server's burners are still to be continued
        return used_s

    def size(self) -> int:
        """Count the processes seen last."""
        return len(self._seen_s)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to each process, the server first, so that it starts no more meanwhile."""
        for member in self._seen_s:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, number)


def hold(pid: int, limit_cores: float) -> None:
    """Keep the tree of `pid` to limit_cores until it ends."""
    server_ended = select.poll()
    server_ended.register(os.pidfd_open(pid), select.POLLIN)
    tree = Tree(pid)
    step = Step(run=True, wait_s=0.0, balance_s=full(limit_cores))
    before_s = time.monotonic()
    try:
        while not server_ended.poll(step.wait_s * 1000):
            used_s, now_s = tree.used_since_last_call(), time.monotonic()
            step = next_step(
                limit_cores=limit_cores,
                balance_s=step.balance_s,
                used_s=used_s,
                elapsed_s=now_s - before_s,
                processes=tree.size(),
            )
            tree.send(signal.SIGCONT if step.run else signal.SIGSTOP)
            before_s = now_s
    finally:
        tree.send(signal.SIGCONT)


def main() -> None:
    """Fork away and hold the limit; the caller's process returns when the new one has taken over."""
    pid, limit_cores = int(sys.argv[1]), float(sys.argv[2])
    if os.fork():
        return
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the tree is continued
    hold(pid, limit_cores)


if __name__ == "__main__":
    main()
