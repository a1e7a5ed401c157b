"""The proxy before a store: the bytes that pass, and their delays."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from steelyard_resilience.stage.delaying_proxy import Lateness, relay

MOMENT_S = 0.05
"""No byte that is held back may arrive within this time."""

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Lateness, asyncio.Event], Awaitable[None]]


def through_the_proxy(talk: Talk) -> None:
    """Connect a client to a store that answers each line in capitals."""

    async def run() -> None:
        lateness, heard = Lateness(), asyncio.Event()

        async def store(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                writer.write(line.upper())
                heard.set()
            writer.close()

        store_server = await asyncio.start_server(store, "127.0.0.1", 0)
        address = store_server.sockets[0].getsockname()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await relay(reader, writer, address, lateness)

        proxy = await asyncio.start_server(connected, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*proxy.sockets[0].getsockname())
        async with asyncio.timeout(10):
            await talk(reader, writer, lateness, heard)
        writer.close()
        proxy.close()
        store_server.close()
        # Both ends of every connection see the end before the loop does.
        await asyncio.sleep(MOMENT_S)

    asyncio.run(run())


def test_bytes_pass_both_ways_in_their_order() -> None:
    async def talk(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: Lateness, __: asyncio.Event
    ) -> None:
        for number in range(100):
            writer.write(f"line {number}\n".encode())
        assert [await reader.readline() for _ in range(100)] == [f"LINE {n}\n".encode() for n in range(100)]

    through_the_proxy(talk)


def test_while_it_hangs_the_store_hears_and_the_client_does_not() -> None:
    async def talk(
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lateness: Lateness,
        heard: asyncio.Event,
    ) -> None:
        lateness.set(None)
        writer.write(b"one\n")
        await heard.wait()
        answer = asyncio.create_task(reader.readline())
        done, _ = await asyncio.wait({answer}, timeout=MOMENT_S)
        assert not done
        lateness.set(0)
        assert await answer == b"ONE\n"

    through_the_proxy(talk)


def test_a_new_delay_applies_to_waiting_bytes() -> None:
    async def talk(
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lateness: Lateness,
        heard: asyncio.Event,
    ) -> None:
        lateness.set(3600)
        writer.write(b"one\ntwo\n")
        await heard.wait()
        answer = asyncio.create_task(reader.readline())
        done, _ = await asyncio.wait({answer}, timeout=MOMENT_S)
        assert not done
        lateness.set(0.001)
        assert await answer == b"ONE\n"
        assert await reader.readline() == b"TWO\n"

    through_the_proxy(talk)


def test_drip_sends_single_bytes_until_the_next_order() -> None:
    async def talk(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lateness: Lateness, _: asyncio.Event
    ) -> None:
        lateness.set(0.0, drips=True)
        writer.write(b"one\n")
        assert await reader.read(100) == b"O"
        lateness.set(0.0)
        assert await reader.readline() == b"NE\n"

    through_the_proxy(talk)


def test_an_unreachable_store_resets_its_clients() -> None:
    async def run() -> None:
        closed = await asyncio.start_server(lambda _, __: None, "127.0.0.1", 0)
        address = closed.sockets[0].getsockname()
        closed.close()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await relay(reader, writer, address, Lateness())

        proxy = await asyncio.start_server(connected, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*proxy.sockets[0].getsockname())
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        proxy.close()
        await asyncio.sleep(MOMENT_S)

    asyncio.run(run())
