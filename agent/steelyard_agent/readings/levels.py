"""Which groups a control group's CPU and memory are measured at, and their limits. I/O only.

A limit on a group above holds all that is in it, so each limit has to be
compared with what is used at its own level.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard_agent import cgroup
from steelyard_agent.cgroup import Place
from steelyard_agent.readings import group_files, limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A limit, and how to read what is used against it; `used` may raise."""

    path: str
    limit: float | None
    used: Callable[[], float | None]
    used_file: str
    limit_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """A group's levels: its own first, then those above it that have a limit."""

    cpu: tuple[Level, ...]
    memory: tuple[Level, ...]
    cpuset_cores: int | None


def look(root: Path, places: Mapping[str, Place]) -> Levels:
    """Return the levels of a group from its place in each controller."""
    cpuset = places.get("cpuset")
    return Levels(
        cpu=tuple(_cpu(root, places)),
        memory=tuple(_memory(root, places)),
        cpuset_cores=None if cpuset is None else limits.cpuset_cores(root, cpuset),
    )


def _cpu(root: Path, places: Mapping[str, Place]) -> list[Level]:
    limited, counted = places.get("cpu"), places.get("cpuacct")
    quotas = {
        place: limits.quota_cores(root, place) for place in (limited.upwards if limited is not None else ())
    }
    levels = []
    if counted is not None:
        own = next((place for place in quotas if place.path == counted.path), None)
        quota = quotas.pop(own) if own is not None else None
        levels.append(_cpu_level(root, counted, counted, own, quota))
    for place, quota in quotas.items():
        if quota is not None:
            # v1 may count time in another group than the one it limits: no figure for that limit then.
            inside = counted is not None and place.holds(counted)
            at = Place(mount=counted.mount, path=place.path) if counted is not None and inside else None
            levels.append(_cpu_level(root, place, at, place, quota))
    return levels


def _memory(root: Path, places: Mapping[str, Place]) -> list[Level]:
    own = places.get("memory")
    if own is None:
        return []
    found = {place: limits.memory_bytes(root, place) for place in own.upwards}
    inherited = limits.inherited_memory_bytes(root, own)
    seen = cgroup.tightest(found.values())
    if inherited is not None and (seen is None or inherited < seen):
        found[own] = inherited  # it is set above what is seen here, where use cannot be read
    return [
        _memory_level(root, place, limit)
        for place, limit in found.items()
        if place == own or limit is not None
    ]


def _cpu_level(
    root: Path, place: Place, counted: Place | None, limited: Place | None, quota: float | None
) -> Level:
    return Level(
        path=place.folder,
        limit=quota,
        used=lambda: None if counted is None else group_files.used_s(root, counted),
        used_file="" if counted is None else group_files.cpu_file(counted),
        limit_file="" if limited is None else group_files.quota_file(limited),
    )


def _memory_level(root: Path, place: Place, limit: float | None) -> Level:
    return Level(
        path=place.folder,
        limit=limit,
        used=lambda: group_files.used_bytes(root, place),
        used_file=group_files.memory_file(place),
        limit_file=group_files.memory_limit_file(place),
    )
