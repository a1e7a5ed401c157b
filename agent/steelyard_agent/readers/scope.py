"""Chooses the scope, for `auto` by looking for a container, and makes its reader. I/O only.

made = make_reader("auto")
reading = made.read()          a Reading, or Absent with the reason; never raises
made.scope                     host, cgroup or process: the scope on the wire
made.detection                 how sure the choice is, for `evidence_table.render`
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from steelyard_agent.evidence import Evidence
from steelyard_agent.readers import cgroup_files
from steelyard_agent.readers.cgroup import CgroupReader
from steelyard_agent.readers.files import below, exists
from steelyard_agent.readers.host import HostReader
from steelyard_agent.readers.process import ProcessReader
from steelyard_agent.readers.process_finder import Target
from steelyard_agent.readers.systemd_unit import UnitReader
from steelyard_agent.scopes import container_detection
from steelyard_agent.scopes.container_detection import Signs
from steelyard_agent.scopes.reading import Absent, Reading

Scope = Literal["host", "cgroup", "process"]
LINUX_SCOPES = ("cgroup", "process")

# Earlier ones distinguish two processes of one number by the wall clock, which can be set.
PROCESS_NEEDS_PSUTIL = (7,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeReader:
    """A reader, its scope, and the evidence for the choice of that scope."""

    read: Callable[[], Reading | Absent]
    scope: Scope
    detection: Evidence


def make_reader(
    scope: Scope | Literal["auto"],
    *,
    root: Path = Path("/"),
    target: Target | None = None,
    count_io: bool = False,
    extras: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> ScopeReader:
    """Return the reader of a scope; `auto` is cgroup in a container and host elsewhere.

    `target` is for the process scope, which needs one (ValueError). The process and cgroup scopes
    need Linux, and the process scope psutil 7 (ValueError). `count_io`: also count operations, for
    --io-capacity. `extras`: also read figures that are only shown (pressure), for --explain. `root` is
    the parent of /proc and /sys.
    """
    if scope in LINUX_SCOPES and not psutil.LINUX:
        raise ValueError(f"--scope {scope} needs Linux, and this is {sys.platform}: use --scope host")
    if scope == "process" and psutil.version_info < PROCESS_NEEDS_PSUTIL:
        raise ValueError(
            f"--scope process needs psutil {PROCESS_NEEDS_PSUTIL[0]} or later, and this is "
            f"{psutil.__version__}: install the agent with pip, in an environment of its own"
        )
    if scope == "auto":
        detection = _detected(root)
        chosen: Scope = "cgroup" if detection.value else "host"
    else:
        chosen = scope
        detection = Evidence(indicator="scope", value=None, note=f"{scope}: it was given")
    return ScopeReader(
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


def _detected(root: Path) -> Evidence:
    """Return whether cgroup (1) or host (0) fits this process, and how sure that is; never raises."""
    note = f"host (sure), but untested here: {sys.platform} is not Linux"
    if psutil.LINUX:
        try:
            return container_detection.judge(_signs(root))
        except (OSError, ValueError) as error:
            note = f"host (a guess): the groups cannot be read: {error}"
    return Evidence(indicator="scope", value=0.0, note=note)


def _signs(root: Path) -> Signs:
    # These two can confine a server; others (freezer, pids) need not follow them.
    own, above = {}, None
    try:
        own = cgroup_files.own_groups(root)
    except cgroup_files.GroupOutOfSightError as error:
        above = error.point
    groups = [own[controller] for controller in ("cpu", "memory") if controller in own]
    part = next((group for group in groups if cgroup_files.is_container_view(root, group.mount)), None)
    return Signs(
        above=above,
        part=None if part is None else part.mount.point,
        paths=[group.path for group in groups],
        unit=next((group.path for group in groups if group.unit), None),
        limited=next((path for group in groups for path in cgroup_files.limited_folders(root, group)), None),
        markers=[marker for marker in container_detection.MARKERS if exists(below(root, marker))],
    )
