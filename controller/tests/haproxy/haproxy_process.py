"""A real HAProxy with the configuration from docs/guides/haproxy.md, and small servers behind it."""

import asyncio
import contextlib
import csv
import io
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from testing.daemons import Daemon, free_port

DOCS = Path(__file__).parents[3] / "docs" / "guides" / "haproxy.md"


def documented() -> str:
    """Return the haproxy.cfg with agent-check from the documentation."""
    examples = re.findall(r"```haproxy\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    return str(next(each for each in examples if "agent-check" in each))


def replaced(text: str, changes: Iterable[tuple[str, str]]) -> str:
    """Return the text with every change made; each must have something to change."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


class Web:
    """A small server, which can be stopped and started again on its port."""

    def __init__(self) -> None:
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Answer requests, the second time on the same port."""
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Answer nothing."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            # Even if the end of the loop cancels this: a writer that outlives it is a later test's warning.
            writer.close()


@dataclass
class Edge:
    """The HAProxy under test."""

    daemon: Daemon
    socket: Path

    async def listens(self) -> None:
        """Wait for the socket: HAProxy names it after its ports are open, and listens on it even later."""
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(str(self.socket))
            except (FileNotFoundError, ConnectionRefusedError):
                await asyncio.sleep(0.02)
            else:
                return writer.close()

    async def command(self, text: str) -> str:
        """Send a command to its socket and return the answer."""
        reader, writer = await asyncio.open_unix_connection(str(self.socket))
        writer.write(f"{text}\n".encode())
        answer = (await reader.read()).decode()
        writer.close()
        return answer

    async def servers(self) -> dict[str, dict[str, str]]:
        """Return the rows of its statistics, by server of the backend web."""
        text = (await self.command("show stat")).removeprefix("# ")
        rows = [row for row in csv.DictReader(io.StringIO(text)) if row["pxname"] == "web"]
        # A star marks a check under way.
        return {
            row["svname"]: row | {"agent_status": row["agent_status"].removeprefix("* ")}
            for row in rows
            if row["svname"] != "BACKEND"
        }

    async def weights(self) -> dict[str, int]:
        """Return the weight of each server."""
        return {name: int(row["weight"]) for name, row in (await self.servers()).items()}

    async def until(
        self, condition: Callable[[dict[str, dict[str, str]]], bool]
    ) -> dict[str, dict[str, str]]:
        """Wait for the statistics to meet a condition, and return them."""
        while True:
            servers = await self.servers()
            if condition(servers):
                return servers
            await asyncio.sleep(0.02)

    async def requests(self, count: int) -> dict[str, int]:
        """Send requests one after the other and return the number that each server got."""
        before = await self.servers()
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.daemon.port)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()
        after = await self.servers()
        return {name: int(after[name]["stot"]) - int(before[name]["stot"]) for name in after}


@contextlib.asynccontextmanager
async def haproxy(folder: Path, config: str) -> AsyncIterator[Edge]:
    """Run HAProxy with the documented configuration and frequent checks."""
    if shutil.which("haproxy") is None:
        pytest.fail("haproxy is not installed: run `make setup-tests`")
    port, socket, path = free_port(), folder / "haproxy.sock", folder / "haproxy.cfg"
    path.write_text(
        replaced(
            config,
            [
                ("/run/haproxy/admin.sock", str(socket)),
                ("bind :8080", f"bind 127.0.0.1:{port}"),
                ("agent-inter 1s", "agent-inter 50ms"),
                ("check inter 2s", "check inter 100ms"),
                # Otherwise a server without an answer for that long, as on a busy machine, is down.
                ("timeout server 30s\n", "timeout server 30s\n    timeout check 5s\n"),
            ],
        )
    )
    daemon = Daemon(["haproxy", "-db", "-f", str(path)], port, folder / "haproxy.log")
    await asyncio.to_thread(daemon.start)
    try:
        edge = Edge(daemon, socket)
        await edge.listens()
        yield edge
    finally:
        daemon.kill()


@contextlib.asynccontextmanager
async def running(work: Awaitable[None]) -> AsyncIterator[None]:
    """Do some work beside the block."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
