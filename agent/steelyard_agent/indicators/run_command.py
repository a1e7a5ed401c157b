"""Runs an indicator's command in bounded time and size, and leaves none of its processes. I/O only.

It gets no shell, no terminal, and none of Steelyard's variables, such as the key. It gets no blocked signals
either: with one inherited from the agent's parent, `timeout` or `kill` could not end it.
"""

import contextlib
import os
import selectors
import signal
import threading
import time

from steelyard_agent.indicators.text_formats import SourceError
from steelyard_agent.log_text import one_line

# Standard error of a failed command, for the log.
MOST_COMPLAINT_BYTES = 200

# Interval of looking whether the agent ends while a command is silent, and whether the command has ended.
LOOK_S = 0.1
END_LOOK_S = 0.005


def run(words: tuple[str, ...], timeout_s: float, most_bytes: int, stop: threading.Event) -> bytes:
    """Return a command's standard output, up to `most_bytes`, and kill its remaining processes.

    Raises TimeoutError if it takes longer or `stop` is set, OSError if it cannot be started,
    `SourceError` if it fails.
    """
    if not hasattr(os, "posix_spawnp"):
        raise SourceError("commands cannot be run on this platform: have a file written, or a URL answer")
    until_s = time.monotonic() + timeout_s
    output, complaint = bytearray(), bytearray()
    with contextlib.ExitStack() as pipes:
        pid, out, err = _started(words, pipes)
        status: int | None = None
        try:
            _collect({out: (output, most_bytes), err: (complaint, MOST_COMPLAINT_BYTES)}, until_s, stop)
            while len(output) < most_bytes and (status := _status(pid)) is None:
                if time.monotonic() > until_s or stop.wait(END_LOOK_S):
                    raise TimeoutError
        finally:
            # Its group has its number, and so have its children without a group of their own.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            if status is None:
                os.waitpid(pid, 0)
    if status:
        why = one_line(complaint.decode("utf-8", "replace"))
        raise SourceError(f"it ended with status {status}" + (f": {why}" if why else ""))
    return bytes(output)


def _started(words: tuple[str, ...], pipes: contextlib.ExitStack) -> tuple[int, int, int]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    out, out_end = os.pipe()
    pipes.callback(os.close, out)
    err, err_end = os.pipe()
    pipes.callback(os.close, err)
    try:
        pid = os.posix_spawnp(
            words[0],
            words,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out_end, 1),
                (os.POSIX_SPAWN_DUP2, err_end, 2),
            ],
            setpgroup=0,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE,),  # Python ignores it
        )
    finally:
        os.close(out_end)
        os.close(err_end)
    return pid, out, err


def _collect(ends: dict[int, tuple[bytearray, int]], until_s: float, stop: threading.Event) -> None:
    """Read both ends until they are closed, or stdout has reached its limit."""
    out, most_bytes = next(iter(ends.values()))
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        while selector.get_map() and len(out) < most_bytes:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or stop.is_set():
                raise TimeoutError
            for key, _ in selector.select(min(left_s, LOOK_S)):
                part = os.read(key.fd, 65536)
                into, most = ends[key.fd]
                into += part[: most - len(into)]
                if not part:
                    selector.unregister(key.fd)


def _status(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None
