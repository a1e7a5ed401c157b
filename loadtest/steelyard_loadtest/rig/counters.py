"""A server's counters, read without asking it: a server that used up its quota cannot answer."""

import contextlib
import mmap
import re
import time

import psutil

from steelyard_loadtest.machine.child_process import children_of, cpu_seconds
from steelyard_loadtest.measurements.trials import Reading
from steelyard_loadtest.rig.place import Files
from steelyard_loadtest.server.answered import COUNT_BYTES

POOL = re.compile(r"\bnamed_metrics\.workers=([0-9.]+)")
"""The indicator of a server's pool of workers, in its agent's load report (ORCA)."""


class Counters:
    """The requests that a demo server answered, its CPU time with its burners', its pool."""

    def __init__(self, files: Files) -> None:
        """Begin with a server that runs. Raises OSError."""
        self.name, self._orca = files.name, files.orca
        self._pid = int(files.pid.read_text())
        with files.count.open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), COUNT_BYTES, prot=mmap.PROT_READ)
        self._answered = memoryview(mapped).cast("Q")
        self._cpu_s = self._children_cpu_s = 0.0

    def read(self) -> Reading:
        """Read them; for a server that has ended, return the last reading."""
        at_s = time.monotonic()
        # A burner that ends between the two is missed until the next reading, and never counted twice.
        try:
            times = psutil.Process(self._pid).cpu_times()
            ended_s = times.children_user + times.children_system
        except psutil.Error:  # it has ended
            ended_s = 0.0
        own_s = cpu_seconds(self._pid) or 0.0
        children_s = ended_s + sum(cpu_seconds(pid) or 0.0 for pid in children_of(self._pid))
        # Ended burners are counted in ticks, rounded down, so a sum may seem to fall by a tick.
        self._children_cpu_s = max(self._children_cpu_s, children_s)
        self._cpu_s = max(self._cpu_s, own_s + children_s)
        return Reading(
            at_s=at_s,
            server=self.name,
            served=self._answered[0],
            cpu_s=self._cpu_s,
            children_cpu_s=self._children_cpu_s,
            pool_utilization=self._pool_utilization(),
        )

    def _pool_utilization(self) -> float | None:
        with contextlib.suppress(OSError):
            if busy := POOL.search(self._orca.read_text()):
                return float(busy[1])
        return None
