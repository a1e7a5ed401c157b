"""Where a CPU limited control group can be made, from /proc/self/mountinfo and /proc/self/cgroup.

Pure: text in, a place out. Formats: proc(5), cgroups(7).
"""

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The directory under which groups may be made, and the one that the process is in now."""

    version: int
    base: PurePosixPath
    current: PurePosixPath


def find_place(mountinfo: str, self_cgroup: str) -> Place | None:
    """Find the cpu controller's hierarchy; a v1 controller is never in v2 too, so v1 goes first."""
    v2: Place | None = None
    paths = _paths_by_controller(self_cgroup)
    for line in mountinfo.splitlines():
        mount, _, file_system = line.partition(" - ")
        fields, kind = mount.split(), file_system.split()
        if len(fields) < 6 or len(kind) < 3:
            continue
        root, point = PurePosixPath(fields[3]), PurePosixPath(fields[4])
        if kind[0] == "cgroup" and "cpu" in kind[2].split(",") and "cpu" in paths:
            current = _below(point, root, paths["cpu"])
            return Place(version=1, base=current, current=current)  # nested, to keep an outer quota
        if kind[0] == "cgroup2" and "" in paths:
            # In v2 a group with processes may not share out a controller, apart from the root.
            v2 = Place(version=2, base=point, current=_below(point, root, paths[""]))
    return v2


def _paths_by_controller(self_cgroup: str) -> dict[str, str]:
    paths = {}
    for line in self_cgroup.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                paths[controller] = parts[2]
    return paths


def _below(point: PurePosixPath, root: PurePosixPath, path: str) -> PurePosixPath:
    """Join a process's path to the mount point; a container's mount begins at `root` of the hierarchy."""
    inner = PurePosixPath(path)
    inner = inner.relative_to(root) if inner.is_relative_to(root) else PurePosixPath()
    return point / inner
