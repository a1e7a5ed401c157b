"""Where control groups are on this machine, and what kind of a group this process is in. I/O only."""

from pathlib import Path

from steelyard_agent import cgroup
from steelyard_agent.cgroup import Mount, Place
from steelyard_agent.readings.files import below, exists, read

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "blkio")


def mounts(root: Path) -> tuple[Mount, ...]:
    """Return the hierarchies that are mounted."""
    return cgroup.parse_mounts(read(below(root, "/proc/self/mountinfo")))


def places(root: Path, pid: str = "self") -> dict[str, Place]:
    """Return a process's group in each controller; raise OSError."""
    membership = cgroup.parse_membership(read(below(root, f"/proc/{pid}/cgroup")))
    mounted = mounts(root)
    found = {name: cgroup.locate(name, mounted, membership) for name in CONTROLLERS}
    return {name: place for name, place in found.items() if place is not None}


def is_part(root: Path, mount: Mount) -> bool:
    """Tell whether the topmost group seen here is only a part of the machine's: a container's view."""
    point = below(root, mount.point)
    if mount.version == 1:
        # The release agent is a file of the very topmost group alone.
        return mount.root != "/" or (exists(f"{point}/tasks") and not exists(f"{point}/release_agent"))
    return mount.root != "/" or exists(f"{point}/cgroup.type")


def whole(root: Path, place: Place) -> Place:
    """Return the container of a group: systemd inside of one has made units below it."""
    if place.unit and is_part(root, place.mount):
        return Place(mount=place.mount, path="/", exact=place.exact)
    return place
