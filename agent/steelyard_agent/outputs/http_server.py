"""The agent's HTTP server: one thread, whatever its clients do. I/O only; `http_response` has the pages.

No client can hold it up: a client has TIMEOUT_S for its request and the answer together, and with
too many of them the oldest is dropped. Sampling is another thread, and only leaves its newest status here.
"""

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from steelyard_protocol import listening
from steelyard_protocol.setting_values import Address

from steelyard_agent.outputs import http_response
from steelyard_agent.outputs.metrics import Deliveries

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
MOST_CLIENTS = 16

Respond = Callable[..., bytes]
"""Makes the response to a request from the newest status, such as `http_response.respond`; never raises."""


class HttpServer:
    """Answers requests until it is closed; raises OSError if it cannot listen."""

    def __init__(self, address: Address, respond: Respond) -> None:
        self.address = address
        self.respond = respond
        listener = _listener(address)
        self.port: int = listener.getsockname()[1]
        self._clients: dict[asyncio.Task[None] | None, None] = {}  # the oldest first
        self._status: Deliveries | None = None
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_note)
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=[listener], name="http", daemon=True)
        self._thread.start()

    def show(self, status: Deliveries) -> None:
        """Answer with this from now on."""
        self._status = status

    def close(self) -> None:
        """Stop listening, and let every client go."""
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(TIMEOUT_S)

    def _run(self, listener: socket.socket) -> None:
        try:
            self._loop.run_until_complete(self._serve(listener))
        except Exception:
            # The agent must outlive a mistake of ours here.
            log.exception("the HTTP endpoint has ended; sampling goes on")
        finally:
            self._loop.close()

    async def _serve(self, listener: socket.socket) -> None:
        server = await asyncio.start_server(self._answer, sock=listener, backlog=MOST_CLIENTS)
        await self._end.wait()
        # A client accepted just now joins _clients in a moment; asyncio forgets it if it closes before.
        self._loop.remove_reader(listener)
        while len(asyncio.all_tasks()) > 1:
            for client in self._clients:
                if client is not None:
                    client.cancel()
            await asyncio.sleep(0)
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        oldest = next(iter(self._clients), None)
        if len(self._clients) >= MOST_CLIENTS and oldest is not None:
            oldest.cancel()
            del self._clients[oldest]
        client = asyncio.current_task()
        self._clients[client] = None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                request = b""
                while not http_response.complete(request):
                    received = await reader.read(4096)
                    if not received:
                        return
                    request += received
                now_s, cpu_s = time.monotonic(), time.process_time()
                writer.write(self.respond(request, self._status, now_s=now_s, cpu_s=cpu_s))
                writer.write_eof()
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # it has gone, is too slow, or one too many: clients must not fill the log
        finally:
            self._clients.pop(client, None)
            writer.transport.abort()


def _note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if isinstance(error := context.get("exception"), OSError):
        # Such as no file descriptors left: the client stays in the queue, and asyncio tries in a second.
        log.debug("a client could not be accepted: %s", error)
    else:
        loop.default_exception_handler(context)


def _listener(address: Address) -> socket.socket:
    host, port = address
    if host == listening.EVERYWHERE:
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        return socket.create_server(("", port), family=family, backlog=MOST_CLIENTS, dualstack_ipv6=both)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server(address, family=family, backlog=MOST_CLIENTS)
