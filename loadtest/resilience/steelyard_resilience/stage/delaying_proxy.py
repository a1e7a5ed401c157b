"""A TCP proxy before a store: requests pass at once, answers after an adjustable delay.

`python -m` runs the proxy of one store with three ports: the clients', the store's, and a port for orders, a
line each. An order is the delay of answers in seconds, `hang`, or `drip` (a byte a second). The answer `ok`
confirms it.

`tc netem` would do this in the kernel, but not every kernel has its module (sch_netem). Also, a changed delay
would not apply to the packets already in its queue.
"""

import asyncio
import contextlib
import socket
import struct
import sys

HANG, DRIP = "hang", "drip"

DRIP_S = 1.0
"""Interval of two bytes: each arrives within a client's timeout of one `recv`, a second or more."""

CHUNK_BYTES = 65_536

WAITING_CHUNKS = 1_000
"""Limit of waiting chunks of a connection; beyond it the store has to wait, as for a slow network."""

ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER: close resets the connection and drops unsent bytes."""


class Lateness:
    """A delay that can change at any time, also for chunks already waiting.

    delay_s: None holds everything back until it is a number again.
    """

    def __init__(self) -> None:
        self.delay_s: float | None = 0.0
        self.drips = False
        self._changed = asyncio.Event()

    def set(self, delay_s: float | None, *, drips: bool = False) -> None:
        """Set the delay of new and waiting chunks, or let them through a byte at a time."""
        self.delay_s, self.drips = delay_s, drips
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, arrived_s: float) -> None:
        """Return when a chunk is due that arrived at that time of the event loop's clock."""
        loop = asyncio.get_running_loop()
        while self.delay_s is None or loop.time() < arrived_s + self.delay_s:
            due_s = None if self.delay_s is None else arrived_s + self.delay_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due_s):
                    await self._changed.wait()


async def relay(
    client_reader: asyncio.StreamReader,
    client_writer: asyncio.StreamWriter,
    store: tuple[str, int],
    lateness: Lateness,
) -> None:
    """Pass bytes on until either side ends; reset the client's connection if the store is unreachable."""
    try:
        store_reader, store_writer = await asyncio.open_connection(*store)
    except OSError:
        _abort(client_writer)
        return
    requests = asyncio.create_task(_pass_on(client_reader, store_writer, Lateness()))
    answers = asyncio.create_task(_pass_on(store_reader, client_writer, lateness))
    try:
        await asyncio.wait({requests, answers}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (requests, answers):
            task.cancel()
        await asyncio.gather(requests, answers, return_exceptions=True)
        for writer in (store_writer, client_writer):
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lateness: Lateness) -> None:
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING_CHUNKS)
    gathering = asyncio.create_task(_gather(reader, waiting))
    try:
        while True:
            arrived_s, chunk = await waiting.get()
            await lateness.wait(arrived_s)
            if not chunk:
                return
            while lateness.drips and len(chunk) > 1:
                writer.write(chunk[:1])
                chunk = chunk[1:]
                await asyncio.sleep(DRIP_S)
            writer.write(chunk)
            await writer.drain()
    except OSError:
        return
    finally:
        gathering.cancel()


async def _gather(reader: asyncio.StreamReader, waiting: asyncio.Queue[tuple[float, bytes]]) -> None:
    clock = asyncio.get_running_loop()
    chunk = b"."
    while chunk:
        try:
            chunk = await reader.read(CHUNK_BYTES)
        except OSError:
            chunk = b""  # a reset ends the client's connection, like an orderly end
        await waiting.put((clock.time(), chunk))


def _abort(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
    writer.close()


async def serve(port: int, store_port: int, control_port: int) -> None:
    """Serve as the proxy of this host's store, until a signal ends it."""
    lateness = Lateness()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, ("127.0.0.1", store_port), lateness)

    async def ordered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(_obey(line.decode(errors="replace").strip(), lateness))
                await writer.drain()
        writer.close()

    await asyncio.start_server(connected, "0.0.0.0", port, backlog=4096)  # noqa: S104 - its host's one address
    control = await asyncio.start_server(ordered, "0.0.0.0", control_port)  # noqa: S104
    await control.serve_forever()


def _obey(order: str, lateness: Lateness) -> bytes:
    try:
        lateness.set(None if order == HANG else 0.0 if order == DRIP else float(order), drips=order == DRIP)
    except ValueError:
        return f"an order is a number of seconds, {HANG} or {DRIP}\n".encode()
    return b"ok\n"


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
