"""Fetches a source's text: from a URL, a file or a command, in bounded time and size. I/O only.

No redirection is followed and no proxy asked. A command gets no variable of Steelyard's, such as its key, no
terminal and no shell; at its deadline it is killed with its children.
"""

import contextlib
import os
import selectors
import signal
import ssl
import stat
import subprocess
import threading
import time
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from steelyard_agent import http_exchange
from steelyard_agent.indicators.declared import Source
from steelyard_agent.indicators.text_formats import SourceError
from steelyard_agent.log_text import one_line

# A large server's page of metrics has some 100 kB.
MOST_BYTES = 1024 * 1024

# What a command says when it fails, for the log.
MOST_COMPLAINT_BYTES = 200

# It is looked this often whether the agent ends, while a command runs.
LOOK_S = 0.1


def fetch(source: Source, timeout_s: float, stop: threading.Event) -> str:
    """Return a source's text; raise `SourceError`. Where `stop` is set, a command is not waited for."""
    try:
        match source.kind:
            case "http":
                found = _http(str(source.target), timeout_s)
            case "file":
                found = _file(Path(str(source.target)))
            case "command":
                found = _command(list(source.target), timeout_s, stop)
    except TimeoutError:
        raise SourceError(f"no answer within {timeout_s:g} s") from None
    except (OSError, HTTPException, UnicodeError) as error:  # the last one: an impossible host name
        raise SourceError(http_exchange.reason(error)) from None
    if len(found) > MOST_BYTES:
        raise SourceError(f"it is longer than {MOST_BYTES // 1024} KiB: ask for less of it")
    return found.decode("utf-8", "replace")


def _http(url: str, timeout_s: float) -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host, port = str(parts.hostname), parts.port
    connection = (
        HTTPSConnection(host, port, timeout=timeout_s, context=_trust())
        if parts.scheme == "https"
        else HTTPConnection(host, port, timeout=timeout_s)
    )
    headers = {
        "User-Agent": "steelyard-agent",
        "Accept": "text/plain;version=0.0.4, application/json, */*;q=0.5",
        "Connection": "close",
    }
    answer = http_exchange.exchange(
        connection,
        lambda _source_ip: connection.request("GET", target, headers=headers),
        timeout_s=timeout_s,
        most_bytes=MOST_BYTES + 1,
    )
    if answer.location is not None and 300 <= answer.status < 400:
        raise SourceError(
            f"it answers {answer.status}, and redirections are not followed: give {one_line(answer.location)}"
        )
    if answer.status != 200:
        raise SourceError(f"it answers {answer.status}")
    return answer.body


@cache
def _trust() -> ssl.SSLContext:
    # Once: it reads all of the system's certificates.
    return ssl.create_default_context()


def _file(path: Path) -> bytes:
    # Not to wait for who writes into a pipe of that name.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SourceError("it is not a regular file")
        return file.read(MOST_BYTES + 1)


def _command(words: list[str], timeout_s: float, stop: threading.Event) -> bytes:
    until_s = time.monotonic() + timeout_s
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    with process:
        try:
            said, complaint = _both(process, until_s, stop)
            while (status := process.poll()) is None and len(said) <= MOST_BYTES:
                if time.monotonic() > until_s or stop.wait(0.005):
                    raise TimeoutError
        finally:
            # Its session has its number, and so all that it started and that made none of their own.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    if status:
        why = one_line(complaint.decode("utf-8", "replace"))
        raise SourceError(f"it ended with status {status}" + (f": {why}" if why else ""))
    return said


def _both(process: "subprocess.Popen[bytes]", until_s: float, stop: threading.Event) -> tuple[bytes, bytes]:
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    said, complaint = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, (said, MOST_BYTES + 1))
        selector.register(process.stderr, selectors.EVENT_READ, (complaint, MOST_COMPLAINT_BYTES))
        while selector.get_map() and len(said) <= MOST_BYTES:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or stop.is_set():
                raise TimeoutError
            for key, _ in selector.select(min(left_s, LOOK_S)):
                part = os.read(key.fd, 65536)
                into, most = key.data
                into += part[: most - len(into)]
                if not part:
                    selector.unregister(key.fileobj)
    return bytes(said), bytes(complaint)
