"""Chooses the reader of a scope: the one place that knows them all.

made = readers.make("auto")
reading = made.read()          a Reading, or Absent with the reason; never raises
made.scope                     host, cgroup or process: what goes on the wire
made.detection                 how sure the choice is, for `explain.render`
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from steelyard_agent.evidence import Evidence
from steelyard_agent.reading import Absent, Reading
from steelyard_agent.readings import container
from steelyard_agent.readings.cgroup import CgroupReader
from steelyard_agent.readings.host import HostReader
from steelyard_agent.readings.process import ProcessReader
from steelyard_agent.readings.target import Target
from steelyard_agent.readings.unit import UnitReader

Scope = Literal["host", "cgroup", "process"]
SCOPES: tuple[Scope, ...] = ("host", "cgroup", "process")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A reader, the scope it reads, and the evidence of how that was chosen."""

    read: Callable[[], Reading | Absent]
    scope: Scope
    detection: Evidence


def make(
    scope: Scope | Literal["auto"],
    *,
    root: Path = Path("/"),
    target: Target | None = None,
    count_io: bool = False,
    extras: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Made:
    """Return the reader of a scope; `auto` is cgroup in a container and host elsewhere.

    `target` is for the process scope, which needs one (ValueError). `count_io`:
    also count operations, for --io-capacity. `extras`: also read what is only
    shown (pressure), for --explain. `root` is where /proc and /sys are.
    """
    if scope == "auto":
        detection = container.detect(root)
        chosen: Scope = "cgroup" if detection.value else "host"
    else:
        chosen = scope
        detection = Evidence(indicator="scope", value=None, note=f"{scope}: it was given")
    return Made(
        read=_reader(chosen, root, target or Target(), count_io, extras, clock),
        scope=chosen,
        detection=detection,
    )


def _reader(
    scope: Scope, root: Path, target: Target, count_io: bool, extras: bool, clock: Callable[[], float]
) -> Callable[[], Reading | Absent]:
    match scope:
        case "host":
            return HostReader(root=root, extras=extras, clock=clock)
        case "cgroup":
            return CgroupReader(root=root, count_io=count_io, extras=extras, clock=clock)
        case "process" if target.unit is not None:
            return UnitReader(target.unit, root=root, count_io=count_io, extras=extras, clock=clock)
        case "process" if target != Target():
            return ProcessReader(target, root=root, count_io=count_io, clock=clock)
    raise ValueError("the process scope needs a target: a pid, a PID file, a port or a unit")
