"""The processes of a cluster: supervisord (start, ask, end), leftovers, and who holds a port (I/O)."""

import contextlib
import subprocess
import sys
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy

import psutil
from supervisor.xmlrpc import SupervisorTransport

from steelyard_loadtest.machine.errors import SetupError

# How long supervisord itself may take to answer after its start.
START_S = 15.0

# Components that write their title over their environment.
TITLED = {"nginx", "redis-server"}


class Supervisor(contextlib.AbstractContextManager["Supervisor"]):
    """A supervisord that listens on a Unix socket."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._transport = SupervisorTransport(None, None, f"unix://{socket}")
        self._rpc: Any = ServerProxy("http://127.0.0.1", transport=self._transport).supervisor

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def is_up(self) -> bool:
        """Tell whether it answers."""
        if not self.socket.exists():
            return False
        try:
            return bool(self._rpc.getState()["statename"] == "RUNNING")
        except (OSError, HTTPException, Fault):
            self._transport.close()  # a connection that failed half-way cannot be used again
            return False

    def launch(self, config: Path) -> None:
        """Start it as a daemon and wait until it answers; raise SetupError when it does not."""
        done = subprocess.run(
            [sys.executable, "-m", "supervisor.supervisord", "-c", str(config)],
            capture_output=True, text=True, check=False, timeout=START_S,
        )  # fmt: skip
        if done.returncode != 0:
            raise SetupError(f"supervisord did not start: {(done.stderr or done.stdout).strip()[-500:]}")
        deadline = time.monotonic() + START_S
        while not self.is_up():
            if time.monotonic() > deadline:
                raise SetupError("supervisord started but does not answer; see its log")
            time.sleep(0.05)

    def states(self) -> dict[str, dict[str, Any]]:
        """Return supervisord's account of each program, by name; `alive` is whether it has a process."""
        return {row["name"]: {**row, "alive": row["pid"] != 0} for row in self._rpc.getAllProcessInfo()}

    def start(self, name: str) -> None:
        """Start a program without waiting; one that runs already is left alone."""
        try:
            self._rpc.startProcess(name, False)
        except Fault as fault:
            if "ALREADY_STARTED" not in fault.faultString:
                raise SetupError(f"{name} did not start: {fault.faultString}") from None

    def shut_down(self, *, patience_s: float = 20.0) -> None:
        """Stop every program, then supervisord itself, and wait until it is gone."""
        pid = int(self._rpc.getPID())
        self._rpc.stopAllProcesses()
        self._rpc.shutdown()
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait(timeout=patience_s)


def leftovers(run_dir: Path) -> list[psutil.Process]:
    """Return processes of the cluster at `run_dir` that no supervisord looks after any more."""
    orphans = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            # Those that set their process title have lost the environment they were started with.
            if process.cwd() == str(run_dir) and (
                process.name() in TITLED or process.environ().get("STEELYARD_CLUSTER") == str(run_dir)
            ):
                orphans.append(process)
    return orphans


def holder(port: int) -> str | None:
    """Return who listens on a TCP port of this machine, for a person; None when nobody does."""
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


def end(processes: list[psutil.Process], *, patience_s: float = 5.0) -> None:
    """Terminate processes and their children; kill those that do not go."""
    family = set(processes)
    for process in processes:
        with contextlib.suppress(psutil.Error):
            family |= set(process.children(recursive=True))
    for send in (psutil.Process.terminate, psutil.Process.kill):
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                send(process)
        family = set(psutil.wait_procs(family, timeout=patience_s)[1])
