"""Finds the process that listens on a TCP port of this network namespace. I/O only.

The kernel's list of sockets knows no processes: who holds a socket shows only
in the files that each process has open. That look at every process costs
milliseconds, so it is repeated every 10 s: so long may a reload that hands
the port to another process go unnoticed while the old one lives.
"""

import os
from collections.abc import Callable, Collection
from pathlib import Path

from steelyard_agent import procfs
from steelyard_agent.procfs import Stat
from steelyard_agent.reading import Absent
from steelyard_agent.readings.files import below, names, read, read_or_none
from steelyard_agent.readings.find import Found

LOOK_AGAIN_S = 10.0


class PortFinder:
    """Finds the topmost listener: nginx's workers hold the socket too, and its master is the one to watch."""

    def __init__(self, port: int, root: Path, clock: Callable[[], float]) -> None:
        self._port = port
        self._proc = below(root, "/proc")
        self._clock = clock
        self._found: Found | Absent | None = None
        self._looked_at_s = 0.0
        self._looks = 0

    def __call__(self) -> Found | Absent:
        """Return the listener, or why there is none; never raises."""
        now_s = self._clock()
        lost = isinstance(self._found, Found) and not self._alive(self._found.pid)
        if self._found is None or lost or not 0 <= now_s - self._looked_at_s < LOOK_AGAIN_S:
            inodes = self._inodes()
            if not inodes:  # cheap to see, so it is looked at every time
                self._found = None
                return Absent(f"nothing listens on port {self._port}")
            self._found, self._looked_at_s = self._look(inodes), now_s
        return self._found

    def _inodes(self) -> set[int]:
        inodes: set[int] = set()
        for table in ("tcp", "tcp6"):
            text = read_or_none(f"{self._proc}/net/{table}")
            inodes |= procfs.parse_listeners(text, self._port) if text is not None else set()
        return inodes

    def _look(self, inodes: Collection[int]) -> Found | Absent:
        holders = [int(name) for name in names(self._proc) if self._holds(name, inodes)]
        stats = {pid: stat for pid in holders if (stat := self._stat(pid)) is not None}
        if len(stats) > 1:
            stats.pop(1, None)  # systemd holds the sockets that it started a service for
        tops = [pid for pid, stat in stats.items() if stat.parent_pid not in stats]
        if not tops:
            return Absent(f"the process that listens on port {self._port} belongs to another user")
        # With SO_REUSEPORT several may listen: the oldest.
        pid = min(tops, key=lambda top: (stats[top].started_ticks, top))
        self._looks += 1
        return Found(
            pid=pid,
            named=f"process {pid}, which listens on port {self._port},",
            stamp=(self._looks,),
            source=f"/proc/net/tcp (port {self._port}), /proc/{pid}/fd",
        )

    def _holds(self, name: str, inodes: Collection[int]) -> bool:
        folder = f"{self._proc}/{name}/fd"
        return name.isdigit() and any(self._inode(f"{folder}/{file}") in inodes for file in names(folder))

    def _inode(self, path: str) -> int | None:
        try:
            return procfs.parse_socket_link(os.readlink(path))  # noqa: PTH115 (thousands of them)
        except OSError:  # closed meanwhile
            return None

    def _alive(self, pid: int) -> bool:
        stat = self._stat(pid)
        return stat is not None and not stat.ended

    def _stat(self, pid: int) -> Stat | None:
        try:
            return procfs.parse_stat(read(f"{self._proc}/{pid}/stat"))
        except (OSError, ValueError):
            return None
