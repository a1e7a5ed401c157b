"""The attack on nginx: one case after the other, a random configuration and visits to it (I/O)."""

import asyncio
import contextlib
import itertools
import shutil
import socket
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.network import free_ports
from steelyard_loadtest.machine.programs import LUA, Programs

from steelyard_resilience.fuzz import nginx_passes_attack
from steelyard_resilience.fuzz.footprint import bad_lines
from steelyard_resilience.fuzz.nginx_cases import Answer, Asked, Case, a_case, unrest, wrong_servers
from steelyard_resilience.fuzz.nginx_chains import Chains, chains_of
from steelyard_resilience.fuzz.nginx_passes_attack import Show, Shows
from steelyard_resilience.fuzz.nginx_visits import PATIENCE_S, page, running, visited
from steelyard_resilience.fuzz.target import ACCEPTED, Tally, Violation

# The kinds of servers, and the number of each for a case to draw from.
KINDS = {
    "good": 6, "slow": 3, "500": 1, "401": 1, "503": 1, "accel": 1, "hangs": 1, "closes": 1, "cut": 1,
    "refuses": 1,
}  # fmt: skip

SLOW_S, SLOW_BYTES = 0.3, 100_000

AskedBy = defaultdict[str, list[tuple[str, str]]]  # the servers' requests, by case


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[list[str], AskedBy]]:
    """Run the servers on free ports of loopback while the block runs; yield their addresses and requests."""
    addresses, asked = list[str](), AskedBy(list)
    with contextlib.ExitStack() as stop:
        for kind in (kind for kind, count in KINDS.items() for _ in range(count)):
            bound = stop.enter_context(contextlib.closing(socket.socket()))
            bound.bind(("127.0.0.1", 0))
            addresses.append(f"127.0.0.1:{bound.getsockname()[1]}")
            if kind != "refuses":
                serve = partial(_serve, kind, addresses[-1], asked)
                stop.callback((await asyncio.start_server(serve, sock=bound)).close)
        yield addresses, asked


async def _serve(
    kind: str, address: str, asked: AskedBy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
        while True:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            given = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            asked[given["x-case"]].append((given["x-upstream"], address))
            if kind == "closes":
                break
            if "transfer-encoding" in given:
                await reader.readuntil(b"0\r\n\r\n")
            await reader.readexactly(int(given.get("content-length", 0)))
            if kind == "hangs":
                await reader.read(1)
                break
            await asyncio.sleep(SLOW_S if kind == "slow" else 0)
            if kind == "good" and "upgrade" in given:
                writer.write(f"HTTP/1.1 101 It\r\nX-Backend: {address}\r\nUpgrade: test\r\n\r\n".encode())
                writer.write(await reader.read(100))
                break
            body = f'<!--# include virtual="{given["x-next"]}" -->' + "." * (kind == "slow") * SLOW_BYTES
            length = len(body) + 9 * (kind == "cut")
            accel = f"X-Accel-Redirect: {given['x-next']}\r\n" if kind == "accel" else ""
            head = f"HTTP/1.1 {kind if kind.isdigit() else 200} It\r\nX-Backend: {address}\r\n{accel}"
            writer.write(f"{head}Content-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}".encode())
            await writer.drain()
            if kind == "cut":
                break
    writer.close()


NAME, METHOD = "nginx-conf", "random nginx"

# Cases at once: a case takes seconds, and nginx waits for most of them.
AT_ONCE = 8

# Seconds for some thirty cases, and the factor of its time over other targets'.
LEAST_S, LONGER = 10.0, 10

MOST_VIOLATIONS = 5

PAGES = ("/steelyard/status", "/open")


def run(programs: Programs, *, seconds: float, seed: int) -> Iterator[Tally]:
    """Try cases for ten times `seconds`, from the seed's case on; yield the tally. Raises SetupError."""
    if programs.modules[LUA] is None:
        raise SetupError("needs an nginx with Lua: run `make setup`")
    yield asyncio.run(_tally(programs, max(LEAST_S, LONGER * seconds), seed))


async def _tally(programs: Programs, seconds: float, seed: int) -> Tally:
    seeds, cases, deadline = itertools.count(seed), 0, time.monotonic() + seconds
    outcomes, violations = Counter[str](), list[Violation]()
    ports = free_ports(2 * AT_ONCE)
    with tempfile.TemporaryDirectory(prefix="steelyard-fuzz-") as made:
        async with (
            serving() as (servers, asked),
            nginx_passes_attack.serving() as (hanging, shows),
            asyncio.TaskGroup() as tasks,
        ):

            async def one_after_the_other(folder: Path, ports: tuple[int, int]) -> None:
                nonlocal cases
                while time.monotonic() < deadline and len(violations) < MOST_VIOLATIONS:
                    number = next(seeds)
                    folder.mkdir()
                    case = chains_of(number, hanging) if number % 2 else a_case(number, servers)
                    if isinstance(case, Chains):
                        broken, answers = await _passes_tried(case, programs, folder, ports, shows)
                    else:
                        broken, answers = await _tried(case, programs, folder, ports, asked[str(number)])
                    cases += 1
                    outcomes.update(map(_outcome, answers))
                    if broken:
                        kept = [case.conf, *map(str, case.visits), (folder / "error.log").read_text()]
                        what, data = f"case {number}: {'; '.join(broken[:5])}", "\n".join(kept).encode()
                        violations.append(Violation(what=what, input=data, seed=number))
                    shutil.rmtree(folder)

            for at, own in enumerate(zip(ports[::2], ports[1::2], strict=True)):
                tasks.create_task(one_after_the_other(Path(made) / str(at), own))
    return Tally(
        NAME, METHOD, about="visits to an nginx of random configuration", outcomes=dict(outcomes),
        violations=tuple(violations), notes=(f"{cases:,} configurations",),
    )  # fmt: skip


def _outcome(answer: Answer) -> str:
    code = answer.status
    return ACCEPTED if 0 < code < 300 else f"HTTP {code}" if code else "left before the answer"


async def _tried(
    case: Case, programs: Programs, folder: Path, ports: tuple[int, int], asked: Asked
) -> tuple[list[str], list[Answer]]:
    cookies = ["none=0"]
    try:
        async with running(case.conf, programs, folder, ports) as log:
            answers = await asyncio.gather(*(visited(visit, ports, cookies) for visit in case.visits))
            broken = wrong_servers(case, asked, answers) or await _unrest(ports[0], asked, answers)
            return broken or bad_lines(log), answers
    except ProgramError as error:
        return [str(error), *bad_lines(folder / "error.log")], []


async def _passes_tried(
    case: Chains, programs: Programs, folder: Path, ports: tuple[int, int], shows: Shows
) -> tuple[list[str], list[Answer]]:
    show = shows[str(case.seed)] = Show(case)
    try:
        async with running(case.conf, programs, folder, ports) as log:
            return await nginx_passes_attack.tried(show, ports, log)
    except ProgramError as error:
        return [str(error), *bad_lines(folder / "error.log")], []


async def _unrest(port: int, asked: Asked, answers: list[Answer]) -> list[str]:
    """Return the remains of requests when patience ends."""
    stayed, deadline = all(answer.complete for answer in answers), time.monotonic() + PATIENCE_S
    while True:
        await asyncio.sleep(0.1)
        status, opened = await asyncio.gather(*(page(port, path) for path in PAGES))
        left = unrest(status, opened, asked, all_stayed=stayed)
        if not left or time.monotonic() > deadline:
            return left
