"""Visits to an nginx of random configuration, and that nginx itself (I/O)."""

import asyncio
import contextlib
import http.client
import io
import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset
from steelyard_loadtest.cluster import parts
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import Process
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.programs import LUA, Programs

from steelyard_resilience import CHECKOUT
from steelyard_resilience.fuzz.nginx_cases import Answer, Visit

# Longer than any location of a case, because the machine may be busy.
PATIENCE_S = 60.0

SOON_S = 0.05

LEAVES_AFTER_S = {"leaves": 0.01, "half a request": 0.01, "slow body, leaves": 0.05, "leaves late": 0.25}

CLOSE = "Connection: close\r\n\r\n"
ENDS = {"half a request": "", "upgrade": f"Upgrade: test\r\nConnection: upgrade, {CLOSE[12:]}"}


@contextlib.asynccontextmanager
async def running(conf: str, programs: Programs, folder: Path, ports: Sequence[int]) -> AsyncIterator[Path]:
    """Run nginx with a configuration while the block runs; yield its log. Raises ProgramError."""
    log = folder / "error.log"
    main = "".join(f"load_module {module}; " for module in programs.modules[LUA] or ())
    main += "user root;" if os.geteuid() == 0 else ""
    values = {"MAIN": main, "LUA": CHECKOUT / "openresty", "PORT": ports[0], "PORT2": ports[1]}
    for name, value in values.items():
        conf = conf.replace(f"@{name}@", str(value))
    (folder / "nginx.conf").write_text(conf)
    nginx = Process(parts.nginx(ports[0], folder, log=log, program=programs.nginx).command, log)
    try:
        await asyncio.to_thread(nginx.wait_listening, ports[0])
        yield log
    finally:
        await asyncio.to_thread(nginx.stop)


async def page(port: int, path: str) -> dict[str, Any]:
    """Return one of nginx's JSON pages."""
    _, body = await asyncio.to_thread(http_ask.ask, "127.0.0.1", port, path)
    document: dict[str, Any] = json.loads(body)
    return document


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
    return replace(answer, body=await reader.read(-1)) if answer.complete else answer


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
    headers, got = dict[str, str](), b""
    await asyncio.sleep(SOON_S)
    resets = visit.manner == "h2 reset"
    while not ended and not resets and (data := await reader.read(65_536)):
        for event in client.receive_data(data):
            if isinstance(event, ResponseReceived):
                headers = {name.decode(): value.decode() for name, value in event.headers or ()}
            elif isinstance(event, DataReceived):
                got += event.data
                client.acknowledge_received_data(event.flow_controlled_length or 0, 1)
            ended = ended or isinstance(event, StreamEnded | StreamReset)
        resets = bool(headers) and visit.manner == "h2 reset in body"
        writer.write(client.data_to_send())
    if resets and not ended:
        client.reset_stream(1)
        writer.write(client.data_to_send())
        await asyncio.sleep(SOON_S)
    return Answer(status=int(headers.get(":status", 0)), headers=headers, complete=ended, body=got)
