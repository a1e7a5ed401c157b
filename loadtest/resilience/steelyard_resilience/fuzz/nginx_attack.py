"""The attack on nginx: one case after the other, a random configuration and visits to it (I/O)."""

import asyncio
import contextlib
import http.client
import io
import itertools
import json
import os
import shutil
import socket
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path

from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset
from steelyard_loadtest.cluster import parts
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import Process
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.network import free_ports
from steelyard_loadtest.machine.programs import LUA, Programs

from steelyard_resilience import CHECKOUT
from steelyard_resilience.fuzz.footprint import bad_lines
from steelyard_resilience.fuzz.nginx_cases import Answer, Asked, Case, Visit, a_case, unrest, wrong_servers
from steelyard_resilience.fuzz.target import ACCEPTED, Tally, Violation

# The kinds of servers, and the number of each for a case to draw from.
KINDS = {
    "good": 6, "slow": 3, "500": 1, "401": 1, "503": 1, "accel": 1, "hangs": 1, "closes": 1, "cut": 1,
    "refuses": 1,
}  # fmt: skip

SLOW_S, SLOW_BYTES = 0.3, 100_000

# Longer than any location of a case, because the machine may be busy.
PATIENCE_S = 60.0

SOON_S = 0.05

LEAVES_AFTER_S = {"leaves": 0.01, "half a request": 0.01, "slow body, leaves": 0.05, "leaves late": 0.25}

CLOSE = "Connection: close\r\n\r\n"
ENDS = {"half a request": "", "upgrade": f"Upgrade: test\r\nConnection: upgrade, {CLOSE[12:]}"}

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


async def visited(visit: Visit, ports: Sequence[int], cookies: list[str]) -> Answer:
    """Make a visit to port [0], over HTTP/2 to [1], with the last cookie, and add the answer's cookie.

    Raises ProgramError if it does not end.
    """
    await asyncio.sleep(visit.wait_s)
    over_http2 = visit.manner.startswith("h2")
    reader, writer = await asyncio.open_connection("127.0.0.1", ports[over_http2])
    try:
        async with asyncio.timeout(PATIENCE_S):
            answer = await (_http2 if over_http2 else _http1)(reader, writer, visit, cookies[-1])
    except (ConnectionError, asyncio.IncompleteReadError):
        return Answer(headers={}, complete=False)
    except TimeoutError:
        raise ProgramError(f"{visit} does not end") from None
    finally:
        writer.transport.abort()
    if cookie := answer.headers.get("set-cookie"):
        cookies.append(cookie.partition(";")[0])
    return answer


async def _http1(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, visit: Visit, cookie: str
) -> Answer:
    manner, body, length = visit.manner, b"." * visit.body, f"Content-Length: {visit.body}"
    if manner == "chunked":
        body, length = b"5\r\n.....\r\n" * (visit.body // 5) + b"0\r\n\r\n", "Transfer-Encoding: chunked"
    head = f"{'POST' if body else 'GET'} {visit.path} HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n{length}\r\n"
    at_once = len(body) // 2 if manner.startswith("slow body") else len(body)
    if manner == "twice":
        writer.write(f"{head}\r\n".encode() + body)
    writer.write(f"{head}{ENDS.get(manner, CLOSE)}".encode() + body[:at_once])
    await asyncio.sleep(LEAVES_AFTER_S.get(manner, 0 if at_once == len(body) else SOON_S))
    if manner in LEAVES_AFTER_S:
        return Answer(headers={}, complete=False)
    writer.write(body[at_once:])
    first, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
    headers = {name.lower(): value for name, value in http.client.parse_headers(io.BytesIO(rest)).items()}
    answer = Answer(status=int(first.split()[1]), headers=headers, complete=manner != "leaves in body")
    writer.write(b"hello" if answer.status == 101 else b"")
    if answer.complete:
        await reader.read(-1)
    return answer


async def _http2(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, visit: Visit, cookie: str
) -> Answer:
    client, body, ended = H2Connection(), b"." * min(visit.body, 16_000), False
    client.initiate_connection()
    asked = [(":method", "POST" if body else "GET"), (":path", visit.path), (":scheme", "http")]
    asked += [(":authority", "a"), ("cookie", cookie), ("content-length", str(len(body)))]
    client.send_headers(1, asked)
    client.send_data(1, body, end_stream=True)
    writer.write(client.data_to_send())
    headers: dict[str, str] = {}
    await asyncio.sleep(SOON_S)
    resets = visit.manner == "h2 reset"
    while not ended and not resets and (data := await reader.read(65_536)):
        for event in client.receive_data(data):
            if isinstance(event, ResponseReceived):
                headers = {name.decode(): value.decode() for name, value in event.headers or ()}
            elif isinstance(event, DataReceived):
                client.acknowledge_received_data(event.flow_controlled_length or 0, 1)
            ended = ended or isinstance(event, StreamEnded | StreamReset)
        resets = bool(headers) and visit.manner == "h2 reset in body"
        writer.write(client.data_to_send())
    if resets and not ended:
        client.reset_stream(1)
        writer.write(client.data_to_send())
        await asyncio.sleep(SOON_S)
    return Answer(status=int(headers.get(":status", 0)), headers=headers, complete=ended)


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
        async with serving() as (servers, asked), asyncio.TaskGroup() as tasks:

            async def one_after_the_other(folder: Path, ports: tuple[int, int]) -> None:
                nonlocal cases
                while time.monotonic() < deadline and len(violations) < MOST_VIOLATIONS:
                    case = a_case(next(seeds), servers)
                    folder.mkdir()
                    broken, answers = await _tried(case, programs, folder, ports, asked[str(case.seed)])
                    cases += 1
                    outcomes.update(map(_outcome, answers))
                    if broken:
                        kept = [case.conf, *map(str, case.visits), (folder / "error.log").read_text()]
                        what, data = f"case {case.seed}: {'; '.join(broken[:5])}", "\n".join(kept).encode()
                        violations.append(Violation(what=what, input=data, seed=case.seed))
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
    log, text, cookies = folder / "error.log", case.conf, ["none=0"]
    main = "".join(f"load_module {module}; " for module in programs.modules[LUA] or ())
    main += "user root;" if os.geteuid() == 0 else ""
    values = {"MAIN": main, "LUA": CHECKOUT / "openresty", "PORT": ports[0], "PORT2": ports[1]}
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    (folder / "nginx.conf").write_text(text)
    nginx = Process(parts.nginx(ports[0], folder, log=log, program=programs.nginx).command, log)
    try:
        await asyncio.to_thread(nginx.wait_listening, ports[0])
        answers = await asyncio.gather(*(visited(visit, ports, cookies) for visit in case.visits))
        broken = wrong_servers(case, asked, answers) or await _unrest(ports[0], asked, answers)
        return broken or bad_lines(log), answers
    except ProgramError as error:
        return [str(error), *bad_lines(log)], []
    finally:
        await asyncio.to_thread(nginx.stop)


async def _unrest(port: int, asked: Asked, answers: list[Answer]) -> list[str]:
    """Return the remains of requests when patience ends."""
    stayed, deadline = all(answer.complete for answer in answers), time.monotonic() + PATIENCE_S
    while True:
        await asyncio.sleep(0.1)
        ask = [asyncio.to_thread(http_ask.ask, "127.0.0.1", port, path) for path in PAGES]
        status, opened = (json.loads(body) for _, body in await asyncio.gather(*ask))
        left = unrest(status, opened, asked, all_stayed=stayed)
        if not left or time.monotonic() > deadline:
            return left
