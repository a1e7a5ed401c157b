"""Controllers as processes, as an operator runs them, for the integration tests of the API."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from steelyard_controller import generated_token

from testing import warm_start
from testing.daemons import free_port
from testing.waiting import PATIENCE_S

# One client for all requests: a new one reads the system's certificates first. These 30 ms of CPU time are
# needed by the process under test. No connection is kept, so none outlives its server.
LOCAL = httpx.Client(trust_env=False, timeout=PATIENCE_S, limits=httpx.Limits(max_keepalive_connections=0))


def own_token() -> dict[str, str]:
    """Return the header with the token that controllers generate if none is configured."""
    token = generated_token.read_or_make(generated_token.path(os.environ))
    return {"Authorization": f"Bearer {token}"}


@dataclass
class Controller:
    """A controller under test."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def ready(self, role: str | None = None) -> bool:
        """Return whether it is ready, in a role."""
        with contextlib.suppress(httpx.HTTPError):
            answer = LOCAL.get(f"{self.url}/readyz")
            return answer.status_code == 200 and role in (None, answer.json()["role"])
        return False

    def wait(self, role: str | None = None) -> None:
        """Wait until it is ready, in a role."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.ready(role):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def wait_decided(self, path: str) -> None:
        """Wait for the first tick of an upstream; a busy machine may take long, with 503 until then."""
        deadline = time.monotonic() + PATIENCE_S
        while (answer := LOCAL.get(f"{self.url}{path}")).status_code == 503:
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.02)
        answer.raise_for_status()

    def stop(self) -> None:
        """Stop it, and wait until it has ended in order."""
        self.process.terminate()
        # After its own clean-up, uvicorn ends itself by the signal that stopped it.
        assert self.process.wait(PATIENCE_S) in (0, -signal.SIGTERM), self.log.read_text()


@contextlib.contextmanager
def controller(folder: Path, *flags: str, environment: dict[str, str] | None = None) -> Iterator[Controller]:
    """Yield a controller on a free port; it is not waited for."""
    port = free_port()
    log = folder / f"controller-{port}.log"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    with log.open("wb") as output:
        process = warm_start.Popen(
            [
                sys.executable,
                "-m",
                "steelyard_controller",
                "--api-port",
                str(port),
                "--tick-s",
                "0.1",
                *flags,
            ],
            stdout=output,
            stderr=output,
            env=kept | (environment or {}),
        )
    try:
        yield Controller(process, f"http://127.0.0.1:{port}", log)
    finally:
        process.kill()
        process.wait()


class Listener:
    """A client of /v1/events in a thread: its events by kind, and whether its stream ended."""

    def __init__(self, url: str, path: str = "/v1/events") -> None:
        self.events: list[tuple[str, str]] = []
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, args=(url + path,), daemon=True)
        self._thread.start()

    def kinds(self) -> list[str]:
        """Return the kinds of the events so far."""
        return [kind for kind, _ in list(self.events)]

    def of(self, kind: str) -> list[str]:
        """Return the data of the events of a kind so far."""
        return [data for each, data in list(self.events) if each == kind]

    def _listen(self, url: str) -> None:
        kind = ""
        with (
            contextlib.suppress(httpx.HTTPError),
            httpx.stream("GET", url, timeout=PATIENCE_S, trust_env=False) as answer,
        ):
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    self.events.append((kind, value))
        self.ended.set()


async def asked_for_a_stream(
    url: str, client: str, headers: str = ""
) -> tuple[int, bytes, asyncio.StreamWriter]:
    """Ask for a stream of events from an address of this machine; return status, head and open connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(client, 0))
    writer.write(f"GET /v1/events HTTP/1.1\r\nHost: a\r\n{headers}\r\n".encode())
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
    return int(head.split()[1]), head, writer
