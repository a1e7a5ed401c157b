"""uvicorn's HTTP protocol with two changes: an answer's header and body are one write, and one URL gets none.

uvicorn writes them separately. A server that is stopped or killed between the two has begun its answer. A
balancer that has read the header cannot ask another server, so the request is lost although others are well.

At `/hang-up` the server closes the connection without an answer, like one whose worker crashes there.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HANG_UP = b"/hang-up"


class WholeAnswers(HttpToolsProtocol):
    """Combines what the application sends without waiting into one write, and hangs up at HANG_UP."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(transport)
        self.transport = cast(asyncio.Transport, _Joined(transport))

    def on_headers_complete(self) -> None:
        """Pass a request on to the application, or hang up."""
        if self.url.partition(b"?")[0] == HANG_UP:
            self.transport.close()
        else:
            super().on_headers_complete()


class _Joined:
    """A transport that holds writes until the loop's next turn."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the transport has
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held = self._held, []
        if held:
            self._transport.writelines(held)
