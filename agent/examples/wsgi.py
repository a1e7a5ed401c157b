"""A WSGI application that reports its server's load (ORCA) and its requests in flight in its responses.

    steelyard-agent --orca /run/steelyard/orca ...
    python wsgi.py /run/steelyard/orca 8000 [HOST]

With Gunicorn or uWSGI each worker counts its own requests: add them up in one number, or leave it out.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

READ_EVERY_S = 0.25


class LoadReport:
    """Wraps an application: its responses have the agent's newest value, the rate and requests in flight."""

    def __init__(self, application: Callable[..., Iterable[bytes]], file: Path) -> None:
        self._application, self._file = application, file
        self._lock = threading.Lock()
        self._value: str | None = None
        self._since_s, self._requests, self._in_flight = time.monotonic(), 0, 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request; it is in flight until its answer has been taken, or is closed."""
        value = self._counted()

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:  # noqa: ANN401
            said = [("x-steelyard-in-flight", str(self._in_flight))]
            if value:
                said.append(("endpoint-load-metrics", value))
            return start_response(status, [*headers, *said], *more)

        answer: Iterable[bytes] = ()
        try:
            answer = self._application(environ, start)
            yield from answer
        finally:
            if hasattr(answer, "close"):
                answer.close()
            with self._lock:
                self._in_flight -= 1

    def _counted(self) -> str | None:
        with self._lock:
            self._requests += 1
            self._in_flight += 1
            past_s = time.monotonic() - self._since_s
            if past_s >= READ_EVERY_S:
                try:
                    agent = self._file.read_text(encoding="ascii").strip()
                    self._value = f"{agent},rps_fractional={self._requests / past_s:.3f}"
                except OSError:  # the agent has ended, or has no figures
                    self._value = None
                self._since_s, self._requests = time.monotonic(), 0
            return self._value


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request, as an application does."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-Server", environ["SERVER_NAME"])])
    return [b"hello\n"]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:  # noqa: ANN401
        pass


if __name__ == "__main__":
    reporting = LoadReport(application, Path(sys.argv[1]))
    host = sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1"
    with make_server(host, int(sys.argv[2]), reporting, _Server, _Quiet) as server:
        server.serve_forever()
