"""A collector of spans for tests: OTLP over HTTP, which answers, or accepts and never answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from testing.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Span:
    """A received span, with ids in hex."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    path: str


class Collector:
    """The received spans so far."""

    def __init__(self, port: int, hangs: bool) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.spans: list[Span] = []
        self.posts = 0
        self.hangs = hangs
        self.ended = threading.Event()

    def take(self, body: bytes) -> None:
        """Take one request of an exporter's."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            of = {each.key: each.value.string_value for each in resource.resource.attributes}
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                told = {each.key: each.value.string_value for each in span.attributes}
                trace, own, parent = (
                    each.hex() for each in (span.trace_id, span.span_id, span.parent_span_id)
                )
                path = told.get("url.path", "")
                self.spans.append(Span(of["service.name"], span.name, trace, own, parent, path))

    def one(self, service: str, name: str, *, trace: str | None = None) -> Span:
        """Wait for a span of this service and name, and of this trace if given."""

        def there() -> list[Span]:
            return [
                each
                for each in list(self.spans)
                if (each.service, each.name) == (service, name) and trace in (None, each.trace)
            ]

        wait_until(lambda: bool(there()), f"the span {name} of {service}")
        return there()[0]


@contextmanager
def collector(port: int, *, hangs: bool = False) -> Iterator[Collector]:
    """Yield a collector on a port."""
    taken = Collector(port, hangs)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.posts += 1
            if taken.hangs:
                taken.ended.wait()
                return
            taken.take(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield taken
    finally:
        taken.ended.set()
        server.shutdown()
        server.server_close()
