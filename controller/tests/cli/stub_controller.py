"""A controller of a few fixed answers, for tests of the command line that need no real one."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from testing.handler_server import serving


@contextmanager
def answering(
    answers: Mapping[str, Any], *, otherwise: int = 404, before: Callable[[], None] | None = None
) -> Iterator[str]:
    """Yield the URL; a request without an answer gets a problem document of the status `otherwise`.

    An answer is by path, or by method and path (`GET /v1/service`). `before` is called before each answer.
    """

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if before is not None:
                before()
            path = self.path.partition("?")[0]
            document = answers.get(f"{self.command} {path}", answers.get(path))
            status = otherwise if document is None else 200
            kind = "application/json" if status == 200 else "application/problem+json"
            problem = {"type": "about:blank", "title": "T", "status": status, "detail": "the cause"}
            body = json.dumps(problem if document is None else document).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *_: object) -> None:
            pass

    with serving(Handler) as port:
        yield f"http://127.0.0.1:{port}"
