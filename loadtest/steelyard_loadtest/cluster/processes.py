"""The processes of a cluster: start, find again, end; leftovers, and the holder of a port (I/O)."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil
from steelyard_agent.kernel_text import parse_listeners

from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.machine.child_process import inherited_environment

# Components that write their title over their environment.
TITLED = {"nginx", "redis-server"}

STOP_S = 5.0
"""nginx finishes the requests under way; after this it is killed."""


def start(part: Part, run_dir: Path, log: Path) -> None:
    """Start a part that outlives this program, and record its process. Raises OSError."""
    environment = {"STEELYARD_CLUSTER": str(run_dir), "PYTHONUNBUFFERED": "1", **part.environment}
    with log.open("ab") as stream:
        process = psutil.Popen(
            part.command, cwd=run_dir, env=inherited_environment() | environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
        )  # fmt: skip
    _noted(part, run_dir).write_text(str(process.pid))


def running(part: Part, run_dir: Path) -> psutil.Process | None:
    """Return the process of a part; None if it does not run, or another process has its number."""
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        process = psutil.Process(int(_noted(part, run_dir).read_text()))
        if _runs(process) and process.cwd() == str(run_dir):
            return process
    return None


def stop(parts: Sequence[Part], run_dir: Path) -> None:
    """Signal parts to end, the last started first, each by its own signal; some may still run afterwards."""
    for step in sorted({part.order for part in parts}, reverse=True):
        group = [(part, running(part, run_dir)) for part in parts if part.order == step]
        for part, process in group:
            with contextlib.suppress(psutil.NoSuchProcess):
                if process is not None:
                    process.send_signal(getattr(signal, f"SIG{part.stop_signal}"))
        wait_ended((process for _, process in group if process is not None), STOP_S)


def _noted(part: Part, run_dir: Path) -> Path:
    return run_dir / f"{part.name}.process"


def leftovers(run_dir: Path) -> list[psutil.Process]:
    """Return all processes of the cluster at `run_dir`, recorded or not."""
    orphans = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            # Processes that set their title have lost the environment of their start.
            if process.cwd() == str(run_dir) and (
                process.name() in TITLED or process.environ().get("STEELYARD_CLUSTER") == str(run_dir)
            ):
                orphans.append(process)
    return orphans


def holder(port: int) -> str | None:
    """Return the listener on a TCP port of this machine, for a person; None if there is none."""
    if not _has_listener(port):
        return None
    # psutil makes an object of every connection of the machine: some seconds after a load test.
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status != psutil.CONN_LISTEN or not connection.laddr or connection.laddr.port != port:
            continue
        if connection.pid is None:
            return "a process of another user"
        try:
            process = psutil.Process(connection.pid)
            return f"{process.name()} (pid {process.pid}: {' '.join(process.cmdline())[:80]})"
        except psutil.Error:
            return f"pid {connection.pid}"
    return None


def _has_listener(port: int) -> bool:
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):  # without IPv6, one of them
            if parse_listeners(Path("/proc/net", table).read_bytes(), port):
                return True
    return False


def wait_ended(processes: Iterable[psutil.Process], patience_s: float) -> set[psutil.Process]:
    """Wait until processes have ended; return those that still run.

    psutil.wait_procs waits for a process' parent as well. An orphan's parent is the machine's init, which may
    reap it seconds later, or never in a container.
    """
    deadline, left = time.monotonic() + patience_s, set(processes)
    while True:
        left = {process for process in left if _runs(process)}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def end(processes: list[psutil.Process], *, patience_s: float = 5.0) -> None:
    """Terminate processes and their children; kill those that do not end."""
    family = set(processes)
    for process in processes:
        with contextlib.suppress(psutil.Error):
            family |= set(process.children(recursive=True))
    for send in (psutil.Process.terminate, psutil.Process.kill):
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                send(process)
        family = wait_ended(family, patience_s)
