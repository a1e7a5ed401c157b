"""How many requests were answered: a number that others read from a file, at any moment.

A server whose CPU quota is used up cannot answer a question; its file can be read.
"""

import mmap
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard_loadtest.server.load_report import LoadReport

COUNTED = frozenset({"/", "/io", "/bytes", "/sleep"})
"""What a load asks for; not what the measuring itself asks."""

COUNT_BYTES = 8


class Count:
    """A counter in a file of 8 bytes, or, without one, in memory.

    One thread adds. The 8 bytes are written at once, so that no reader sees half of a
    number, in the machine's order: little endian wherever this runs.
    """

    def __init__(self, file: Path | None) -> None:
        """Begin at 0; raise OSError when the file cannot be written."""
        self._cell = memoryview(_mapped(file) if file else mmap.mmap(-1, COUNT_BYTES)).cast("Q")

    def add(self) -> None:
        """Count one more."""
        self._cell[0] += 1

    def value(self) -> int:
        """Return the number."""
        return self._cell[0]


class Answered:
    """Wraps an ASGI application: counts its answers, and adds the newest load report to them."""

    def __init__(self, app: ASGIApp, count: Count, report: LoadReport | None) -> None:
        self._app, self._count, self._report = app, count, report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["path"] not in COUNTED:
            await self._app(scope, receive, send)
            return
        header = self._report.header() if self._report else None

        async def send_with_report(message: Message) -> None:
            if header and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], header]
            await send(message)

        await self._app(scope, receive, send_with_report if header else send)
        self._count.add()


def _mapped(file: Path) -> mmap.mmap:
    # A new file in the place of the old one: who has mapped that would crash if it were cut short.
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_bytes(bytes(COUNT_BYTES))
    with fresh.open("r+b") as stream:
        mapped = mmap.mmap(stream.fileno(), COUNT_BYTES)
    fresh.replace(file)
    return mapped
