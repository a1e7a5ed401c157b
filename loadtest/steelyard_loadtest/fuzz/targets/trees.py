"""Whole machines with damaged files: the agent's readers on trees of files in a folder.

An input is a tree as in agent/tests/fixtures: `=== path` and the lines of that file, again and again.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from steelyard_agent.reading import Absent
from steelyard_agent.readings.cgroup import CgroupReader
from steelyard_agent.readings.host import HostReader

from steelyard_loadtest.fuzz.contract import CHECKOUT
from steelyard_loadtest.fuzz.model import ACCEPTED, Target
from steelyard_loadtest.machine.errors import SetupError

HEAD = b"=== "


def targets() -> tuple[Target, ...]:
    """Return the agent's readers as one target; raises SetupError where there is no checkout."""
    folder = CHECKOUT / "agent" / "tests" / "fixtures"
    found = {file.stem: file.read_bytes() for file in sorted(folder.glob("*.tree"))}
    groups = [tree for name, tree in found.items() if name.startswith("v")]
    if not groups:
        raise SetupError(f"fuzzing needs a checkout of Steelyard: no trees in {folder}")
    hardware = b"".join(tree for name, tree in found.items() if not name.startswith("v"))
    seeds = tuple(hardware + group for group in groups)
    about = "a machine with damaged files, by the agent's readers"
    return (Target(name="agent-readers", about=about, form="text", seeds=seeds, judge=_Machines(seeds)),)


class _Machines:
    def __init__(self, seeds: tuple[bytes, ...]) -> None:
        # No path that is not an example's: an edited one could lead out of the folder.
        self._heads = {part.partition(b"\n")[0] for seed in seeds for part in seed.split(HEAD)[1:]}
        memory = Path("/dev/shm")  # noqa: S108 - a folder of its own below it; files there cost no disk
        self._root = Path(tempfile.mkdtemp(prefix="steelyard-fuzz-", dir=memory if memory.is_dir() else None))
        weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)

    def __call__(self, data: bytes) -> str:
        self._plant(data)
        clock: Callable[[], float] = iter(range(1, 100)).__next__
        host = HostReader(root=self._root, extras=True, clock=clock)
        group = CgroupReader(root=self._root, extras=True, count_io=True, clock=clock)
        for _ in range(2):
            machine, own = host(), group()
        known = [machine.cores, machine.cpu_busy_s, machine.memory, machine.nics, machine.disks]
        readable = sum(column is not None for column in known) + (not isinstance(own, Absent))
        return ACCEPTED if readable == len(known) + 1 else "a column is null"

    def _plant(self, tree: bytes) -> None:
        for left in self._root.iterdir():
            shutil.rmtree(left, ignore_errors=True)
        for part in tree.split(HEAD)[1:]:
            head, _, text = part.partition(b"\n")
            if head not in self._heads:
                continue
            path, arrow, target = head.decode().partition(" -> ")
            place = self._root / path.strip("/")
            if os.path.lexists(place):
                continue
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                if arrow:
                    place.symlink_to(target)
                elif path.endswith("/"):
                    place.mkdir()
                else:
                    place.write_bytes(text)
            except OSError:  # a file stands where two trees in one want a folder
                continue
