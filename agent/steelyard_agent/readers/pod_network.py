"""Reads the NICs of a pod, in /proc/PID/net/dev of one of its processes. I/O only.

psutil counts only the NICs of its own network. The agent only needs the node's PID namespace: everybody may
read that file. Each network has its own file, so the file's number (inode) identifies a process's network, as
/proc/PID/ns/net does for a tracer of the process. This shows when a process of another pod has got the number
of an ended one.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from steelyard_agent import kernel_text
from steelyard_agent.cgroup_text import Cgroup
from steelyard_agent.readers.files import below, read_or_none
from steelyard_agent.scopes.machine_utilization import NicCounters

# Dozens of NICs.
MOST_BYTES = 64 * 1024


class PodNetwork:
    """The NICs of the pod whose groups `find` returns; raises OSError with the reason if there are none."""

    def __init__(self, find: Callable[[], Mapping[str, Cgroup]], *, root: Path = Path("/")) -> None:
        self._find = find
        self._root = root
        self._pid: int | None = None
        self._network: int | None = None

    def __call__(self) -> dict[str, NicCounters]:
        """Return the pod's NICs, whose kinds and speeds cannot be seen from outside."""
        text = None
        if self._pid is not None:
            with suppress(OSError):
                network, text = self._read(self._pid)
                text = text if network == self._network else None
        counted = kernel_text.parse_net_dev(self._searched() if text is None else text)
        return {
            name: NicCounters(
                kind="loopback" if name == "lo" else "virtual", rx_bytes=rx, tx_bytes=tx, bytes_per_s=None
            )
            for name, (rx, tx) in counted.items()
        }

    def _searched(self) -> bytes:
        """Return the text of the first live process, and remember that process."""
        self._pid = None
        seen = 0
        for pid in self._pids():
            seen += pid > 0
            try:
                network, text = self._read(pid)
            except OSError:  # it has ended, or is not in this PID namespace (0)
                continue
            if network == self._nodes():
                raise OSError("it uses the node's network, and that network's bytes are not the pod's")
            self._pid, self._network = pid, network
            return text
        raise OSError(
            "no process of it runs" if seen else "its processes cannot be seen: the agent needs hostPID: true"
        )

    def _pids(self) -> Iterator[int]:
        groups = self._find()
        group = groups.get("cpuacct") or groups["memory"]
        # Its containers' groups have the processes.
        for folder, _, _ in os.walk(below(self._root, group.folder)):
            yield from (int(pid) for pid in (read_or_none(f"{folder}/cgroup.procs") or b"").split())

    def _nodes(self) -> int | None:
        with suppress(OSError):
            return self._read(1)[0]
        return None

    def _read(self, pid: int) -> tuple[int, bytes]:
        file = os.open(below(self._root, f"/proc/{pid}/net/dev"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(file, MOST_BYTES):
                parts.append(part)
            return os.fstat(file).st_ino, b"".join(parts)
        finally:
            os.close(file)
