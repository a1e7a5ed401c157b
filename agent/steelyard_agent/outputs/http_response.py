"""The agent's HTTP responses. Pure: the bytes of a request in, those of a response out.

There are two pages to read, and nothing to change: /orca and /metrics; for a node's agent /metrics
and /healthz.
Every answer ends its connection.
"""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from steelyard_agent.outputs import metrics, node_metrics, orca_report
from steelyard_agent.outputs.metrics import Status
from steelyard_agent.outputs.node_metrics import NodeStatus

LONGEST_REQUEST = 8192
"""Bytes; a scraper's has some hundred."""

PLAIN_TEXT_TYPE = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Page:
    code: int
    text: str
    headers: tuple[str, ...] = ()
    content_type: str = PLAIN_TEXT_TYPE


def complete(request: bytes) -> bool:
    """Return whether a request can be answered: its header is complete, or too long."""
    return b"\r\n\r\n" in request or b"\n\n" in request or len(request) > LONGEST_REQUEST


def respond(request: bytes, shown: Status | None, *, now_s: float, cpu_s: float) -> bytes:
    """Return the response of one server's agent to a request; total, never raises."""

    def page(path: str) -> _Page | None:
        record = metrics.fresh(shown, now_s)
        match path:
            case "/orca":
                application = {} if shown is None else shown.application
                value = None if record is None else orca_report.text(orca_report.joined(record, application))
                if value is None:
                    return _Page(503, "There is no sample now.\n")
                return _Page(200, f"{value}\n", (f"{orca_report.HEADER}: {value}",))
            case "/metrics":
                text = metrics.prometheus(shown, record, cpu_s=cpu_s)
                return _Page(200, text, content_type=metrics.PROMETHEUS_TYPE)
        return None

    return _answered(request, page, "There are /orca and /metrics.\n")


def respond_of_node(request: bytes, shown: NodeStatus | None, *, now_s: float, cpu_s: float) -> bytes:
    """Return the response of a node's agent to a request; total, never raises."""

    def page(path: str) -> _Page | None:
        match path:
            case "/healthz":
                fresh = metrics.is_fresh(shown, now_s)
                return _Page(200, "ok\n") if fresh else _Page(503, "No tick has ended for three intervals.\n")
            case "/metrics":
                text = node_metrics.prometheus(shown, now_s, cpu_s=cpu_s)
                return _Page(200, text, content_type=metrics.PROMETHEUS_TYPE)
        return None

    return _answered(request, page, "There are /metrics and /healthz.\n")


def _answered(request: bytes, page: Callable[[str], _Page | None], pages: str) -> bytes:
    if len(request) > LONGEST_REQUEST:
        return _response(_Page(431, "The request is too long.\n"))
    words = request.split(b"\n", 1)[0].strip().decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _response(_Page(400, "This is not HTTP/1.\n"))
    method, target, _ = words
    if method not in {"GET", "HEAD"}:
        return _response(_Page(405, "Only GET and HEAD.\n", ("Allow: GET, HEAD",)))
    shown = page(target.partition("?")[0])
    return _response(_Page(404, pages) if shown is None else shown, body=method == "GET")


def _response(page: _Page, *, body: bool = True) -> bytes:
    content = page.text.encode()
    lines = [
        f"HTTP/1.1 {page.code} {HTTPStatus(page.code).phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(content)}",
        "Cache-Control: no-store",
        "Connection: close",
        *page.headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (content if body else b"")
