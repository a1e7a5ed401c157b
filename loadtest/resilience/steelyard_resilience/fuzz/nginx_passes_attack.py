"""The attack on nginx with servers that hang up and come back: one case (I/O)."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from steelyard_loadtest.machine.errors import ProgramError

from steelyard_resilience.fuzz.footprint import bad_lines
from steelyard_resilience.fuzz.nginx_cases import Answer, Visit, unrest
from steelyard_resilience.fuzz.nginx_chains import Chains, a_visit
from steelyard_resilience.fuzz.nginx_passes import (
    MOST_PROBES,
    Sent,
    in_flight,
    still_out,
    wrong_answers,
    wrong_counts,
    wrong_health,
    wrong_passes,
)
from steelyard_resilience.fuzz.nginx_visits import PATIENCE_S, page, visited

SERVERS = 16

# From an answer to the end of an idle connection.
IDLE_S = 0.02

# Patience with what takes a fraction of a second on an idle machine.
SOON_S = 15.0

# Between two visits, so that each worker learns of a server's return.
PAUSE_S = 0.01

# Above the numbers of a case's visits.
NUMBERED_AGAIN = 1000

STATUS, OPEN = "/steelyard/status", "/open"


@dataclass(slots=True)
class Show:
    """A case that is being tried, as its servers see it."""

    case: Chains
    sent: list[Sent] = field(default_factory=list)
    dead: frozenset[str] = frozenset()
    hangs: bool = False
    """Whether servers hang up where the case says so."""


Shows = dict[str, Show]
"""The cases by their seeds, as in the header X-Case."""


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[list[str], Shows]]:
    """Run the servers on free ports of loopback while the block runs; yield their addresses and the cases."""
    addresses, shows = list[str](), Shows()
    with contextlib.ExitStack() as stop:
        for _ in range(SERVERS):
            bound = stop.enter_context(contextlib.closing(socket.socket()))
            bound.bind(("127.0.0.1", 0))
            addresses.append(f"127.0.0.1:{bound.getsockname()[1]}")
            serve = partial(_serve, addresses[-1], shows)
            stop.callback((await asyncio.start_server(serve, sock=bound)).close)
        yield addresses, shows


async def _serve(
    address: str, shows: Shows, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
        while True:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            given = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            await reader.readexactly(int(given.get("content-length", 0)))
            show, at = shows[given["x-case"]], given["x-at"]
            hangs = show.hangs and (address in show.dead or address in show.case.places[at].hangs)
            status = 0 if hangs else int(given.get("x-status", 200))
            visit, upstream = given["x-visit"], given["x-upstream"]
            show.sent.append(Sent(visit=visit, place=at, upstream=upstream, server=address, status=status))
            if hangs:
                break
            accel = f"X-Accel-Redirect: {given['x-next']}\r\n" if "x-next" in given else ""
            head = f"HTTP/1.1 {status} It\r\nX-Backend: {address}\r\n{accel}"
            writer.write(f"{head}Content-Type: text/html\r\nContent-Length: 5\r\n\r\nhello".encode())
            await writer.drain()
            if address in show.case.closes_idle:
                await asyncio.sleep(IDLE_S)
                break
    writer.close()


async def tried(show: Show, ports: tuple[int, int], log: Path) -> tuple[list[str], list[Answer]]:
    """Try a case on a running nginx; return what broke, and the answers. Raises ProgramError."""
    case, answers = show.case, list[tuple[Visit, Answer]]()

    async def visit(*visits: Visit) -> None:
        got = await asyncio.gather(*(visited(one, ports, ["none=0"]) for one in visits))
        answers.extend(zip(visits, got, strict=True))

    async def counts() -> list[str]:
        status, opened = await asyncio.gather(page(ports[0], STATUS), page(ports[0], OPEN))
        asked = [(one.upstream, one.server) for one in show.sent]
        return unrest(status, opened, asked, all_stayed=False) or wrong_counts(case, show.sent, status)

    async def health() -> list[str]:
        return wrong_health(case, show.sent, log.read_text())

    await visit(*case.warm)
    show.dead, show.hangs = case.dead, True
    await visit(*case.visits)
    broken = [await _settled(health), await _while_clients_read(case.held, ports)]
    show.hangs = False
    broken += [await _return(show, ports, visit), wrong_passes(case, show.sent), wrong_answers(case, answers)]
    broken += [await _settled(counts), bad_lines(log)]
    return [line for lines in broken for line in lines[:2]], [one for _, one in answers]


async def _settled(check: Callable[[], Coroutine[Any, Any, list[str]]]) -> list[str]:
    """Return what a check still says when patience ends."""
    deadline = time.monotonic() + SOON_S
    while (left := await check()) and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    return left


async def _while_clients_read(held: Sequence[Visit], ports: Sequence[int]) -> list[str]:
    """Return the servers in flight while clients still read what nginx itself sends."""
    async with contextlib.AsyncExitStack() as leave:
        for visit in held:
            reader, writer = await asyncio.open_connection("127.0.0.1", ports[0])
            leave.callback(writer.transport.abort)
            writer.write(f"GET {visit.path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await reader.readuntil(b"\r\n\r\n")
            except TimeoutError:
                raise ProgramError(f"{visit} gets no answer") from None

        async def left() -> list[str]:
            held = in_flight(await page(ports[0], STATUS))
            return [f"{what} while nginx sends its own answer" for what in held]

        return await _settled(left)


async def _return(
    show: Show, ports: Sequence[int], visit: Callable[[Visit], Coroutine[Any, Any, None]]
) -> list[str]:
    """Make visits until no server is out; return those that answered often, or long, and are still out.

    Answers count while a server is out: before that it answers as a healthy one, and a kept connection that
    it closes may put it out at any time. An upstream with too few healthy servers uses those that are out,
    so its answers do not count.
    """
    at, deadline = 0, time.monotonic() + PATIENCE_S
    out_since: dict[tuple[str, str], int] = {}
    while True:
        status, seen = await page(ports[0], STATUS), len(show.sent)
        out_since = {
            key: seen if status["upstreams"][key[0]]["fail_open"] else out_since.get(key, seen)
            for key in still_out(status)
        }
        out = {
            (name, server): sum(one.server == server for one in show.sent[since:])
            for (name, server), since in out_since.items()
        }
        is_late = time.monotonic() > deadline
        if late := [key for key, answered in out.items() if is_late or answered > MOST_PROBES]:
            return [
                f"{name}'s {server} answered {out[name, server]} requests and is out" for name, server in late
            ]
        if not out:
            return []
        paths = show.case.again[next(iter(out))[0]]
        await visit(a_visit(paths[at % len(paths)], NUMBERED_AGAIN + at))
        at += 1
        await asyncio.sleep(PAUSE_S)
