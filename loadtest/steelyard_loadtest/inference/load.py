"""The load: each request at its due time, independent of the others (an open loop), each stream timed."""

import asyncio
import json
import time
from collections.abc import Sequence

from steelyard_loadtest.cluster.parts import HOST
from steelyard_loadtest.generators.tally import TIMEOUT, of_error, of_status
from steelyard_loadtest.inference.arrivals import Arrival
from steelyard_loadtest.inference.figures import Stream

TIMEOUT_S = 60.0
"""Time-out of each answer: twenty minutes of an engine's."""

CUT = "cut"
"""A stream that ended without its last event."""

DONE = b"data: [DONE]"


def request(one: Arrival) -> bytes:
    """Return the request; the target has the key of its prefix, for balancers that cannot read the body."""
    fields = {"model": "lab", "prompt": one.prompt, "max_tokens": 4096, "seed": one.output_tokens}
    body = json.dumps({**fields, "stream": True, "stream_options": {"include_usage": True}})
    return (
        f"POST /v1/completions?prefix={one.prefix} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


async def make(arrivals: Sequence[Arrival], port: int, began_s: float, compression: float) -> list[Stream]:
    """Send all to a port of this machine; the first is due at began_s of time.monotonic."""
    return await asyncio.gather(*(_send(one, port, began_s, compression) for one in arrivals))


async def _send(one: Arrival, port: int, began_s: float, compression: float) -> Stream:
    due_s = began_s + one.at_s / compression
    while (left_s := due_s - time.monotonic()) > 0:
        await asyncio.sleep(left_s)  # uvloop sleeps up to a millisecond less
    times, failure = [due_s, due_s], ""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            failure = await _answered(request(one), port, times)
    except (OSError, EOFError, ValueError) as error:
        failure = TIMEOUT if isinstance(error, TimeoutError) else of_error(error)
    return Stream(
        due_s=one.at_s,
        ttft_s=(times[0] - due_s) * compression,
        ended_s=(times[1] - began_s) * compression,
        output_tokens=one.output_tokens,
        failure=failure,
    )


async def _answered(text: bytes, port: int, times: list[float]) -> str:
    """Record when the first and the last event arrived; return the kind of failure, or ""."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(text)
        head = await reader.readuntil(b"\r\n\r\n")
        if failure := of_status(int(head.split(b" ", 2)[1])):
            return failure
        tail, first = b"", True
        while data := await reader.read(65_536):
            if DONE in (tail := tail[-len(DONE) :] + data):
                times[1] = time.monotonic()
                times[0] = times[1] if first else times[0]
                return ""
            if first and b"data: " in tail:
                times[0], first = time.monotonic(), False
        return CUT
    finally:
        writer.close()
