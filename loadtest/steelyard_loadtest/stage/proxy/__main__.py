"""Runs the proxy of one store: a port for its clients, and one that takes orders, a line each.

An order is the delay of answers in seconds, or `hang`; it is answered with `ok` once it is in force.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Sequence

from steelyard_loadtest.stage.proxy.lateness import Lateness
from steelyard_loadtest.stage.proxy.relay import relay

HANG = "hang"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m steelyard_loadtest.stage.proxy", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="where the store's clients connect")
    parser.add_argument("--to", required=True, metavar="HOST:PORT", help="where the store listens")
    parser.add_argument("--control-port", type=int, required=True, help="where orders are taken")
    options = parser.parse_args(arguments)
    host, _, port = options.to.rpartition(":")
    asyncio.run(_serve(options.port, (host, int(port)), options.control_port))
    return 0


async def _serve(port: int, store: tuple[str, int], control_port: int) -> None:
    lateness = Lateness()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, store, lateness)

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
        lateness.set(None if order == HANG else float(order))
    except ValueError:
        return f"an order is a number of seconds or {HANG}\n".encode()
    return b"ok\n"


if __name__ == "__main__":
    sys.exit(main())
