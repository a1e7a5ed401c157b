"""A run: the stage, the load, the churn, the readings meanwhile, and the state at the end (I/O).

Churn is a step a second over the REST API. One server answers under new addresses, like new machines.
"""

import contextlib
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import psutil
from steelyard_controller.declarations.upstream import Peer
from steelyard_loadtest.machine import http_ask, picker_list
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError
from steelyard_loadtest.machine.repeating import repeating

from steelyard_resilience.running_load import Load
from steelyard_resilience.soak.leaks import IN_FLIGHT_WITHIN_S
from steelyard_resilience.soak.readings import (
    MASTER,
    REDIS,
    WORKER,
    Ending,
    Reading,
    Soaked,
    in_flight,
    lua_bytes,
)
from steelyard_resilience.soak.timetable import CHURNED, Plan, Step, steps
from steelyard_resilience.stage.hosts import API_PORT, CONTROLLERS, UPSTREAM, Settings
from steelyard_resilience.stage.namespaces import run as run_command
from steelyard_resilience.stage.stage import Stage, overview


def readings(stage: Stage, at_s: float, status: Mapping[str, Any] | None) -> list[Reading]:
    """Return a reading of every running process; status: nginx's, with the size of LuaJIT's heap."""
    lua, read = lua_bytes(status), []
    for name, pid in _processes(stage):
        # A worker may have just ended, and Redis may hang: neither is an error of the soak.
        with contextlib.suppress(OSError, ProgramError, psutil.Error, UnreadableError):
            heap = lua.get(pid)
            if name == REDIS:
                heap = int(stage.redis_command("INFO", "memory")["used_memory"])
            read.append(read_process(name, pid, at_s, heap))
    return read


def read_process(name: str, pid: int, at_s: float, heap_bytes: int | None = None) -> Reading:
    """Read one process. Raises OSError, psutil.Error or UnreadableError when it has ended."""
    private = private_bytes(Path(f"/proc/{pid}/status").read_text())
    process = psutil.Process(pid)
    return Reading(
        at_s=at_s,
        process=name,
        pid=pid,
        private_bytes=private,
        descriptors=process.num_fds(),
        threads=process.num_threads(),
        heap_bytes=heap_bytes,
    )


def private_bytes(status: str) -> int:
    """Return the anonymous memory in /proc/PID/status, resident or swapped out.

    Raises UnreadableError for a process that has ended and waits to be reaped.
    """
    # psutil reads each mapping for it, and takes a hundred times as long.
    kilobytes = re.findall(r"^(?:RssAnon|VmSwap):\s+(\d+) kB$", status, re.MULTILINE)
    if len(kilobytes) < 2:
        raise UnreadableError("/proc/PID/status has no RssAnon and VmSwap")
    return sum(map(int, kilobytes)) * 1024


def _processes(stage: Stage) -> Iterator[tuple[str, int]]:
    for name in stage.names:
        daemon = stage.daemon(name)
        if (pid := daemon.pid) is not None:
            yield MASTER if name == "nginx" else name, pid
            if name == "nginx":
                yield from ((WORKER, child) for child in daemon.children())


PATIENCE_S = 3.0
"""The first event arrives at once, and a tick within a second."""

PICKERS = [name for name in picker_list.keyless() if name != picker_list.DEFAULT]

EVENTS = 2
"""The controller's role, and a tick."""


def churning(
    stage: Stage, servers: Sequence[Peer], soaked: Soaked, every_s: float
) -> AbstractContextManager[None]:
    """Take one step after another in its own thread while the block runs."""
    left = steps(UPSTREAM, servers, PICKERS)

    def churn() -> None:
        step = next(left)
        try:
            _take(stage, step)
        except (ProgramError, OSError, ValueError) as error:
            soaked.refused.append(f"{step.words}: {error}")
        soaked.steps += 1

    return repeating(churn, interval_s=every_s)


def declared(stage: Stage) -> list[Peer]:
    """Return the servers of the upstream. Raises ProgramError."""
    return [Peer.model_validate(peer) for peer in overview(stage, "/declaration")["peers"]]


def _take(stage: Stage, step: Step) -> None:
    if step.watch:
        # A standby passes events on from the leader, so either controller will do.
        _watch(stage, CONTROLLERS[0], step.path)
        return
    document = step.document if step.members is None else overview(stage, "/declaration") | dict(step.members)
    leader = stage.leader() if step.standby else None
    standby = next(name for name in CONTROLLERS if name != leader) if step.standby else None
    stage.api(step.method, step.path, document, standby)


def _watch(stage: Stage, controller: str, path: str) -> None:
    """Read the first events of a controller and close the connection."""

    def first(stream: BinaryIO) -> bytes:
        events = 0
        while events < EVENTS:
            events += http_ask.read_line(stream).startswith(b"event:")
        return b""

    # An answer in HTTP/1.0 has no chunks; in HTTP/1.1 their sizes would be between its lines.
    token, address = stage.read_token_file.read_text().strip(), stage.addresses[controller]
    asked = f"GET {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
    http_ask.exchange(address, API_PORT, asked.encode(), first, timeout_s=PATIENCE_S)


def add_addresses(stage: Stage, host: str) -> None:
    """Give a host the addresses of all churned servers, from nginx's point of view. Raises SetupError.

    A route of type local gives the host every address of a network, without a list of them.
    """
    edge = stage.daemon("nginx").host
    run_command(*stage.on(host), "ip", "route", "add", "local", str(CHURNED), "dev", "lo")
    run_command(*stage.on(edge), "ip", "route", "add", str(CHURNED), "via", stage.addresses[host])


TURN_S = 0.25
AGAIN_S = 0.2

SENT_AWAY_S = 5.0
"""Old workers of a reload have nothing to wait for after the load's end."""


def run(plan: Plan, folder: Path, soaked: Soaked, on_news: Callable[[], None]) -> None:
    """Run it to its end, or to Ctrl-C; call on_news when `soaked` has new readings.

    Raises SetupError, ProgramError.
    """
    # LuaJIT compiles rare paths for an hour, 4 kB a trace, which would hide a leak.
    settings = Settings(servers=plan.servers, nginx_workers=plan.nginx_workers, jit=False)
    try:
        with Stage(folder / "stage", settings) as stage:
            servers = declared(stage)
            add_addresses(stage, stage.daemon("server-1").host)
            load = Load(stage.url, plan.rate_per_s, folder / "load")
            try:
                with churning(stage, servers, soaked, plan.step_every_s):
                    _beside(plan, stage, load, soaked, on_news)
            finally:
                load.stop()
    except KeyboardInterrupt:
        soaked.interrupted = True


def _beside(plan: Plan, stage: Stage, load: Load, soaked: Soaked, on_news: Callable[[], None]) -> None:
    pids = {name: stage.daemon(name).pid for name in stage.names}
    reloads = list(plan.reloads_s)
    next_read_s = 0.0
    until_s = load.began_s + plan.seconds
    while True:
        _count(load, until_s, soaked)
        if load.over(until_s, time.monotonic()):
            break
        time.sleep(TURN_S)
        at_s = time.monotonic() - load.began_s
        if reloads and at_s >= reloads[0]:
            reloads.pop(0)
            try:
                stage.daemon("nginx").signal(signal.SIGHUP)
                soaked.reloads.append(at_s)
            except (ProgramError, OSError) as error:
                soaked.refused.append(f"reload: {error}")
        if at_s >= next_read_s:
            # Readings missed during a long one are skipped.
            next_read_s = max(next_read_s, at_s - plan.read_every_s) + plan.read_every_s
            soaked.readings += readings(stage, at_s, stage.status())
            on_news()
    load.stop()
    soaked.ending = _end(plan, stage, pids)


def _count(load: Load, until_s: float, soaked: Soaked) -> None:
    # The generator stops late, from outside, so requests due after the end do not count.
    ended = [one for one in load.read() if one.due_s < until_s]
    failed = [one for one in ended if one.failure]
    soaked.sent += len(ended)
    soaked.failures.update(one.failure for one in failed)
    if failed and soaked.first_failure_s is None:
        soaked.first_failure_s = failed[0].due_s - load.began_s


def _end(plan: Plan, stage: Stage, pids: dict[str, int | None]) -> Ending:
    ended_s = time.monotonic()
    settled_s, left = None, {}
    while settled_s is None and time.monotonic() - ended_s < IN_FLIGHT_WITHIN_S:
        status = stage.status()
        left = in_flight(status)
        if status is not None and not any(left.values()):
            settled_s = time.monotonic() - ended_s
        else:
            time.sleep(AGAIN_S)
    while len(workers := stage.daemon("nginx").children()) > plan.nginx_workers:
        if time.monotonic() - ended_s > IN_FLIGHT_WITHIN_S + SENT_AWAY_S:
            break
        time.sleep(AGAIN_S)
    changed = [name for name, pid in pids.items() if stage.daemon(name).pid != pid]
    return Ending(
        in_flight=left,
        settled_s=settled_s,
        workers_left=len(workers),
        restarted=tuple(f"{name} has restarted" for name in changed),
    )
