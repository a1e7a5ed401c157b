"""Starts controllers, agents, reporters and the command line by forking a process that has imported them.

The imports take a second of CPU time for a controller, half of that for the command line, and a quarter for
an agent.

`Popen` is `subprocess.Popen` for commands of the form `[sys.executable, "-m", module, *arguments]`, if the
module can be forked; other commands start as ever. The child runs the same `main` with its own arguments,
environment and descriptors. It differs in what Linux keeps of the command: /proc/PID/cmdline is that of the
process it was forked from. Tests of that, of imports, and of the whole cluster start the program itself; the
lab's command, which starts the cluster, may be forked.

    pytest workers --- a socket: arguments, environment, descriptors --> forking process --- fork --> program
          ^------------- a pipe for each program: its pid, then its status --------'

The workers of a run share a module's forking process: the first that needs it starts it, and it ends with the
last.
"""

import atexit
import contextlib
import errno
import gc
import importlib
import inspect
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from testing.waiting import PATIENCE_S

# Programs by module: the module of the function that runs it, the function's name, and later imports. The
# function reads sys.argv and os.environ only when it is called.
FORKED = {
    "steelyard_controller": ("steelyard_controller.__main__", "main", ("pydantic.v1",)),
    "steelyard_controller.cli": (
        "steelyard_controller.console_scripts",
        "steelyard",
        ("steelyard_controller.cli.subcommands", "argcomplete", "httpcore", "anyio", "ssl"),
    ),
    "steelyard_agent": ("steelyard_agent.__main__", "main", ("steelyard_agent.outputs.http_server",)),
    "steelyard_reporter": ("steelyard_reporter.__main__", "main", ()),
    "steelyard_loadtest": (
        "steelyard_loadtest.console_scripts",
        "loadtest",
        ("steelyard_loadtest.cluster.command", "steelyard_loadtest.demo.command", "matplotlib.pyplot"),
    ),
    "steelyard_loadtest.server": ("steelyard_loadtest.server.__main__", "main", ("uvloop", "httptools")),
}

# Linux allows datagrams of 208 kB by default. Arguments and environment of a test are some 5 kB.
MESSAGE_BYTES = 200_000

SERVE = "from testing import warm_start; warm_start.serve("
"""The code of a forking process begins with this, and so its command line shows it."""

MODULE = "STEELYARD_TESTS_MODULE"
BEFORE = "STEELYARD_TESTS_BEFORE"

# A short-lived program's status may follow its pid at once.
PID_BYTES = 10

HELLO = b"."
"""A connection counts from this byte: a forking process that has said it will not end."""

PEER = struct.Struct("3i")
"""struct ucred: pid, uid, gid."""

_servers: dict[str, "_Server"] = {}
_lock = threading.Lock()


class Popen(subprocess.Popen[Any]):
    """A process, forked if its module allows it; it is used like any other Popen."""

    _status: int | None = None

    def _execute_child(self, *args: object, **kwargs: object) -> None:
        started = inspect.signature(super()._execute_child).bind(*args, **kwargs).arguments  # type: ignore[misc]
        command = started["args"]
        if not isinstance(command, list) or command[:2] != [sys.executable, "-m"] or command[2] not in FORKED:
            super()._execute_child(*args, **kwargs)  # type: ignore[misc]
            return
        pipes = [started[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        descriptors = [number if given == -1 else given for number, given in enumerate(pipes)]
        environment = dict(os.environ) if started["env"] is None else started["env"]
        with _lock:
            server = _servers.get(command[2])
            if server is None:
                server = _servers[command[2]] = _Server(command[2])
            self._status = server.fork(
                command[3:], environment, os.fspath(started["cwd"] or Path.cwd()), descriptors
            )
        self.pid = int(os.read(self._status, PID_BYTES))
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(started[name] for name in ends))  # type: ignore[attr-defined]

    def _internal_poll(self, **more: object) -> int | None:
        if self._status is None:
            status: int | None = super()._internal_poll(**more)  # type: ignore[misc]
            return status
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._wait(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._status is None:
            status: int = super()._wait(timeout)  # type: ignore[misc]
            return status
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                if not select.select([self._status], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
                # The forking process ends only with pytest.
                self.returncode = os.waitstatus_to_exitcode(int(os.read(self._status, 20) or b"9"))
                os.close(self._status)
        return self.returncode


def run(
    command: list[str],
    *,
    before: str = "",
    env: dict[str, str] | None = None,
    patience_s: float = PATIENCE_S,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, like subprocess.run with its output as text; `before` is Python for it."""
    environment = (dict(os.environ) if env is None else env) | {BEFORE: before}
    pipe = subprocess.PIPE
    with Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=environment) as it:
        try:
            out, error = it.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            it.kill()
            raise
    return subprocess.CompletedProcess(command, it.returncode, out, error)


class _Server:
    """This worker's connection to the forking process of a module."""

    def __init__(self, module: str) -> None:
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
        self._module, self._address = module, f"\0steelyard-tests-{run}-{module}"
        self._process: subprocess.Popen[bytes] | None = None
        while (connected := self._connected()) is None:
            pass
        self._socket = connected
        atexit.register(self.close)

    def _connected(self) -> socket.socket | None:
        it = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            it.connect(self._address)
            if it.recv(len(HELLO)):
                return it
        except ConnectionRefusedError:
            self._start()
        except ConnectionResetError:  # it has ended with its last worker, before it accepted this one
            pass
        it.close()
        return None

    def _start(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as its:
            try:
                its.bind(self._address)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                time.sleep(0.01)  # another worker has bound it, and listens in a moment
                return
            its.listen(100)
            # The module is not in the command: tests that look for a program by its command must not
            # find this.
            code = f"{SERVE}{its.fileno()})"
            environment = {
                name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")
            }
            # A fork keeps no threads but its own.
            environment["OPENBLAS_NUM_THREADS"] = "1"
            environment[MODULE] = self._module
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=Path(__file__).parents[1],
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )

    def close(self) -> None:
        """Hang up; the worker that started the process waits for its end."""
        self._socket.close()
        if self._process is not None:
            self._process.wait()

    def fork(
        self, arguments: list[str], environment: dict[str, str], folder: str, descriptors: list[int]
    ) -> int:
        """Fork the program; return a pipe that has its pid, and will have its status."""
        status, its = os.pipe()
        message = json.dumps([arguments, environment, folder]).encode("utf-8", "surrogateescape")
        socket.send_fds(self._socket, [message], [*descriptors, its])
        os.close(its)
        return status


def serve(descriptor: int) -> None:
    """Fork a module's program for each message, until all that have connected have hung up."""
    module = os.environ[MODULE]
    holder, function, later = FORKED[module]
    gc.disable()
    main = getattr(importlib.import_module(holder), function)
    for name in later:
        importlib.import_module(name)
    # Without this, the first collection in each child would copy all pages of the parent.
    gc.collect()
    gc.freeze()
    gc.enable()
    asked = _asked(descriptor)
    if asked is None:
        return
    message, descriptors = asked
    arguments, environment, folder = json.loads(message)
    for number, each in enumerate(descriptors):
        os.dup2(each, number)
        os.close(each)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    exec(os.environ.pop(BEFORE, ""), {"os": os, "sys": sys})  # noqa: S102 - a test's own text
    # The interpreter has made its streams from the descriptors of the forking process.
    sys.stdout, sys.stderr = (
        open(number, "w", buffering=1 if os.isatty(number) or number == 2 else -1, closefd=False)  # noqa: SIM115
        for number in (1, 2)
    )
    sys.argv = [str(sys.modules[holder].__file__), *arguments]
    _run_and_end(main)


def _run_and_end(main: Callable[[], int | None]) -> NoReturn:
    """Run the program, and end as the interpreter does, but without freeing all modules.

    That would copy the pages that they share with the forking process.
    """
    try:
        status: object = main()
    except SystemExit as ended:
        status = ended.code
    if status is None or isinstance(status, int):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):  # if a stream fails, the interpreter reports it
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit((status or 0) & 0xFF)
    sys.exit(status)  # type: ignore[arg-type]


def _asked(descriptor: int) -> tuple[bytes, list[int]] | None:
    """Return a message and its descriptors in the child that is to obey it, and None in the end."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    pipes: dict[int, int] = {}
    listening = socket.socket(fileno=descriptor)
    workers: list[socket.socket] = []
    while True:
        awaited: list[socket.socket | int] = [listening, woken, *workers]
        ready, _, _ = select.select(awaited, [], [])
        if woken in ready:
            os.read(woken, 1000)
            _reap(pipes)
        if listening in ready:
            worker, _ = listening.accept()
            if _is_mine(worker):
                worker.sendall(HELLO)
                workers.append(worker)
            else:
                worker.close()
        for worker in [each for each in workers if each in ready]:
            message, descriptors, _, _ = socket.recv_fds(worker, MESSAGE_BYTES, 4)
            if not message:
                worker.close()
                workers.remove(worker)
                if not workers:
                    return None
                continue
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for held in (listening, *workers):
                    held.close()
                for each in (woken, wake, *pipes.values(), descriptors[3]):
                    os.close(each)
                return message, descriptors[:3]
            os.write(descriptors[3], b"%*d" % (PID_BYTES, pid))
            pipes[pid] = descriptors[3]
            for each in descriptors[:3]:
                os.close(each)


def _is_mine(connected: socket.socket) -> bool:
    # Anyone on this machine may connect to an abstract address.
    _, user, _ = PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    return bool(user == os.getuid())


def _reap(pipes: dict[int, int]) -> None:
    while pipes:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        pipe = pipes.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(pipe, str(status).encode())
        os.close(pipe)
