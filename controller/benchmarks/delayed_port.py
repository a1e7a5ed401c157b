"""A port that passes everything on to another one, later: a network with a round trip of its own.

    delayed_port.py PORT TO_PORT ROUND_TRIP_MS

A process of its own, so that its CPU time is not the controller's.
"""

import asyncio
import sys


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    while data := await reader.read(65536):
        loop.call_later(delay_s, writer.write, data)
    loop.call_later(delay_s, writer.close)


async def _serve(port: int, to_port: int, delay_s: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", to_port)
        await asyncio.gather(_pass_on(reader, back, delay_s), _pass_on(there, writer, delay_s))

    async with await asyncio.start_server(connected, "127.0.0.1", port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 2000))
