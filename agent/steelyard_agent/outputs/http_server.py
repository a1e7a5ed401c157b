"""The agent's HTTP server: one thread, whatever its clients do. I/O only; what it says is in `http_response`.

No client can hold it up: all sockets are non-blocking, a client has TIMEOUT_S for
its request and the answer together, and when there are too many the oldest is
let go. Sampling is another thread, which only leaves its newest status here.
"""

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from steelyard_protocol.setting_values import Address

from steelyard_agent.outputs import http_response
from steelyard_agent.outputs.metrics import Deliveries

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
MOST_CLIENTS = 16


@dataclass(eq=False, slots=True)
class _Client:
    socket: socket.socket
    until_s: float
    request: bytearray = field(default_factory=bytearray)
    response: memoryview | None = None


Respond = Callable[..., bytes]
"""Makes the response to a request from the newest status, such as `http_response.respond`; never raises."""


class HttpServer:
    """Answers requests until it is closed; raises OSError where it cannot listen."""

    def __init__(self, address: Address, respond: Respond) -> None:
        self.address = address
        self.respond = respond
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._listener = socket.create_server(address, family=family, backlog=MOST_CLIENTS)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._waker, self._wakened = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wakened, selectors.EVENT_READ)
        self._clients: dict[socket.socket, _Client] = {}  # the oldest first
        self._status: Deliveries | None = None
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self._thread.start()

    def show(self, status: Deliveries) -> None:
        """Answer with this from now on."""
        self._status = status

    def close(self) -> None:
        """Stop listening, and let every client go."""
        self._waker.close()
        self._thread.join(TIMEOUT_S)

    def _serve(self) -> None:
        try:
            while self._step():
                pass
        except Exception:
            # The agent must outlive a mistake of ours here.
            log.exception("the HTTP endpoint has ended; sampling goes on")
        for client in list(self._clients.values()):
            self._drop(client)
        self._selector.close()
        self._listener.close()
        self._wakened.close()

    def _step(self) -> bool:
        now_s = time.monotonic()
        for client in list(self._clients.values()):
            if client.until_s <= now_s:
                self._drop(client)
        first = next(iter(self._clients.values()), None)
        for key, _ in self._selector.select(None if first is None else first.until_s - now_s):
            if key.fileobj is self._wakened:
                return False
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.data, _Client) and key.data.socket in self._clients:
                self._serve_one(key.data)
        return True

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:  # such as no file descriptors left: the client stays in the queue
            log.debug("a client could not be accepted: %s", error)
            time.sleep(0.1)
            return
        accepted.setblocking(False)
        if len(self._clients) >= MOST_CLIENTS:
            self._drop(next(iter(self._clients.values())))
        client = _Client(accepted, time.monotonic() + TIMEOUT_S)
        self._clients[accepted] = client
        self._selector.register(accepted, selectors.EVENT_READ, client)

    def _serve_one(self, client: _Client) -> None:
        try:
            done = self._read(client) if client.response is None else self._write(client)
        except BlockingIOError:
            return
        except OSError:  # it has gone
            done = True
        if done:
            self._drop(client)

    def _read(self, client: _Client) -> bool:
        received = client.socket.recv(4096)
        client.request += received
        if not http_response.complete(bytes(client.request)):
            return not received
        client.response = memoryview(
            self.respond(
                bytes(client.request), self._status, now_s=time.monotonic(), cpu_s=time.process_time()
            )
        )
        self._selector.modify(client.socket, selectors.EVENT_WRITE, client)
        return False

    def _write(self, client: _Client) -> bool:
        assert client.response is not None  # noqa: S101
        client.response = client.response[client.socket.send(client.response) :]
        return not client.response

    def _drop(self, client: _Client) -> None:
        del self._clients[client.socket]
        self._selector.unregister(client.socket)
        with contextlib.suppress(OSError):
            client.socket.shutdown(socket.SHUT_WR)
        client.socket.close()
