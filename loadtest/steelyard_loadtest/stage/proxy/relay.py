"""One connection of a client to a store: requests pass at once, answers as late as ordered."""

import asyncio
import contextlib
import socket
import struct

from steelyard_loadtest.stage.proxy.lateness import Lateness

CHUNK_BYTES = 65_536

WAITING_CHUNKS = 1_000
"""Of one connection; then the store has to wait, as it would for a slow network."""

ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER: closing resets the connection, and what was not sent yet is not."""


async def relay(
    client_reader: asyncio.StreamReader,
    client_writer: asyncio.StreamWriter,
    store: tuple[str, int],
    lateness: Lateness,
) -> None:
    """Pass bytes on until either side ends; a store that is not there resets the client's connection."""
    try:
        store_reader, store_writer = await asyncio.open_connection(*store)
    except OSError:
        _abort(client_writer)
        return
    requests = asyncio.create_task(_pass_on(client_reader, store_writer))
    answers = asyncio.create_task(_pass_on_late(store_reader, client_writer, lateness))
    try:
        await asyncio.wait({requests, answers}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (requests, answers):
            task.cancel()
        await asyncio.gather(requests, answers, return_exceptions=True)
        for writer in (store_writer, client_writer):
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()


async def _pass_on_late(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lateness: Lateness
) -> None:
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING_CHUNKS)
    gathering = asyncio.create_task(_gather(reader, waiting))
    try:
        while True:
            came_s, chunk = await waiting.get()
            await lateness.wait(came_s)
            if not chunk:
                return
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
            chunk = b""  # a reset ends the client's connection as an end does
        await waiting.put((clock.time(), chunk))


def _abort(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
    writer.close()
