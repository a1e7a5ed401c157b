"""Finds the control groups of pods, by their uid, in the tree of their node. I/O only.

A container may see only its own group in /sys/fs/cgroup. If the node's /sys/fs/cgroup is mounted at
/host/sys/fs/cgroup, that one is searched. `kubelet_groups` has the groups' names.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from steelyard_agent import kubelet_groups
from steelyard_agent.cgroup_text import Cgroup, Mount
from steelyard_agent.readers import cgroup_files
from steelyard_agent.readers.files import below, exists, names

NODES = "/host/sys/fs/cgroup"

# Mounts, and the parent group of all pods, usually outlive the agent; a search through the whole tree takes
# milliseconds.
SEARCH_AGAIN_S = 10.0

# A kubelet in a container, seen from outside: /docker/<id>/kubelet/kubepods.
MOST_FOLDERS_DEEP = 4


class PodGroups:
    """The groups of a node's pods below `root`."""

    def __init__(self, *, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._mounts: tuple[Mount, ...] = ()
        self._point = ""
        self._kubepods: list[str] = []
        self._paths: dict[str, str] = {}
        self._searched_at_s: float | None = None

    def find(self, uid: str) -> dict[str, Cgroup]:
        """Return the pod's group in each controller; raise OSError with the reason if there is none."""
        now_s = self._clock()
        if self._searched_at_s is None or not 0 <= now_s - self._searched_at_s < SEARCH_AGAIN_S:
            self._search()
            self._searched_at_s = now_s
        if uid not in self._paths or not exists(f"{self._point}{self._paths[uid]}"):
            self._list()
        if uid not in self._paths:
            where = " and ".join(f"{self._point}{path}" for path in self._kubepods)
            remedy = f"mount the node's /sys/fs/cgroup at {NODES}"
            raise OSError(
                f"pod{uid} is not in {where}"
                if where
                else f"there are no pods' groups below {self._point}: {remedy}"
            )
        return cgroup_files.groups_at(self._root, self._mounts, self._paths[uid])

    def _search(self) -> None:
        mounts = cgroup_files.mounts(self._root)
        nodes = tuple(mount for mount in mounts if f"{mount.point}/".startswith(f"{NODES}/"))
        self._mounts = nodes or mounts
        # On v1 a kubelet makes a pod's group in every hierarchy, at the same path.
        tree = cgroup_files.mount_of("cpuacct", self._mounts)
        if tree is None:
            raise OSError("no control groups are mounted here")
        self._point = below(self._root, tree.point)
        if not self._kubepods or not all(exists(f"{self._point}{path}") for path in self._kubepods):
            # Topmost first: a process in a container cannot hide a pod of the node behind a group of its
            # name.
            self._kubepods = sorted(_kubepods(self._point), key=lambda path: (path.count("/"), path))

    def _list(self) -> None:
        self._paths = {}
        for kubepods in self._kubepods:
            folders = names(f"{self._point}{kubepods}")
            qualities = [f"{kubepods}/{name}" for name in folders if kubelet_groups.is_quality(name)]
            paths = kubelet_groups.pods_in(kubepods, folders)
            for inside in qualities:
                paths |= kubelet_groups.pods_in(inside, names(f"{self._point}{inside}"))
            self._paths = paths | self._paths


def _kubepods(point: str) -> Iterator[str]:
    for folder, inside, _ in os.walk(point):
        path = folder.removeprefix(point)
        yield from (f"{path}/{name}" for name in inside if kubelet_groups.is_kubepods(name))
        deeper = path.count("/") + 1 < MOST_FOLDERS_DEEP
        inside[:] = [name for name in inside if deeper and not kubelet_groups.is_kubepods(name)]
