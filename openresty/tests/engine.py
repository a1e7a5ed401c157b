"""An inference engine that computes nothing: it answers like vLLM, as far as a test lets it."""

import contextlib
import json
import select
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

from openresty.tests.backend import CrowdServer

LOOK_S = 0.02


class Engine:
    """Streams `tokens` events and one with the usage; the rest of an answer waits while `going` is cleared.

    With `begins_late` its header waits, too. The first event comes `thinks_s` after the header. `usage` is
    the usage in the answer, or None. `bodies` has the request bodies, `inside` the number of open requests,
    and `left` the number of clients that left meanwhile. `headers` are added to each answer. A request for
    the load gets `load` in the header of whole answers, and not of streamed ones, as from vLLM (#24905).
    `pieces` is the number of bytes to send at a time; 0 sends an event at a time.
    """

    def __init__(self, name: str) -> None:
        self.going = threading.Event()
        self.going.set()
        self.tokens = 5
        self.usage: dict[str, Any] | None = {"prompt_tokens": 40, "completion_tokens": 5}
        self.pieces = 0
        self.load = "named_metrics.kv_cache_usage_perc=0.25, named_metrics.num_requests_waiting=3.0"
        self.begins_late, self.thinks_s = False, 0.0
        self.headers: dict[str, str] = {}
        self.bodies: list[bytes] = []
        self.inside = self.left = 0
        self._lock = threading.Lock()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                engine.serve(self, name)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = CrowdServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let all answers end, and stop listening."""
        self.going.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def serve(self, to: BaseHTTPRequestHandler, name: str) -> None:
        """Answer a request."""
        body = to.rfile.read(int(to.headers["Content-Length"]))
        with self._lock:
            self.bodies.append(body)
            self.inside += 1
        try:
            self._answer(to, body, name)
        except ConnectionError:
            to.close_connection = True
            with self._lock:
                self.left += 1
        finally:
            with self._lock:
                self.inside -= 1

    def _answer(self, to: BaseHTTPRequestHandler, body: bytes, name: str) -> None:
        request = None
        with contextlib.suppress(ValueError):
            request = json.loads(body)
        if not isinstance(request, dict):
            self._head(to, 400, name, "application/json")
            return self._send(to, b'{"error": "no JSON"}', last=True)
        usage = {"usage": self.usage} if self.usage else {}
        if not request.get("stream"):
            asked = to.headers.get("endpoint-load-metrics-format") == "TEXT"
            self._head(to, 200, name, "application/json", f"TEXT {self.load}" if asked else None)
            self._wait(to.connection)
            whole = {"choices": [{"message": {"role": "assistant", "content": "x" * self.tokens}}], **usage}
            return self._send(to, json.dumps(whole).encode(), last=True)
        if self.begins_late:
            self._wait(to.connection)
        self._head(to, 200, name, "text/event-stream")
        time.sleep(self.thinks_s)
        events = [{"choices": [{"delta": {"role": "assistant"}}]}]
        events += [{"choices": [{"delta": {"content": '"usage": {'}}]}] * self.tokens
        for event in [*events, *([{"choices": [], **usage}] if usage else [])]:
            self._send(to, f"data: {json.dumps(event)}\n\n".encode())
            self._wait(to.connection)
        return self._send(to, b"data: [DONE]\n\n", last=True)

    def _head(
        self, to: BaseHTTPRequestHandler, status: int, name: str, content_type: str, load: str | None = None
    ) -> None:
        to.send_response(status)
        if load:
            to.send_header("endpoint-load-metrics", load)
        own = {"X-Backend": name, "Content-Type": content_type, "Transfer-Encoding": "chunked"}
        for header, value in {**own, **self.headers}.items():
            to.send_header(header, value)
        to.end_headers()

    def _send(self, to: BaseHTTPRequestHandler, data: bytes, *, last: bool = False) -> None:
        step = self.pieces or len(data)
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            to.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if self.pieces:
                time.sleep(0.0005)  # so that most pieces are read alone
        to.wfile.write(b"0\r\n\r\n" if last else b"")

    def _wait(self, connection: socket.socket) -> None:
        """Wait until the answer may go on; raise if the client closes the connection meanwhile."""
        while not self.going.wait(LOOK_S):
            if select.select([connection], [], [], 0)[0] and not connection.recv(1, socket.MSG_PEEK):
                raise ConnectionAbortedError
