"""The agent's HTTP responses. Pure: the bytes of a request in, those of a response out.

Two pages that are read, and nothing that could be changed: /orca and /metrics.
Every answer ends its connection.
"""

from steelyard_agent import metrics, orca_report
from steelyard_agent.metrics import Status

LONGEST_REQUEST = 8192
"""Bytes; a scraper's has some hundred."""

PLAIN = "text/plain; charset=utf-8"

REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
    431: "Request Header Fields Too Large", 503: "Service Unavailable",
}  # fmt: skip


def complete(request: bytes) -> bool:
    """Tell whether a request can be answered: its header has come, or is too long."""
    return b"\r\n\r\n" in request or b"\n\n" in request or len(request) > LONGEST_REQUEST


def respond(request: bytes, shown: Status | None, *, now_s: float, cpu_s: float) -> bytes:
    """Return the response to a request; total, never raises."""
    if len(request) > LONGEST_REQUEST:
        return _response(431, "The request is too long.\n")
    words = request.split(b"\n", 1)[0].strip().decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _response(400, "This is not HTTP/1.\n")
    method, target, _ = words
    if method not in {"GET", "HEAD"}:
        return _response(405, "Only GET and HEAD.\n", ["Allow: GET, HEAD"])
    record = metrics.fresh(shown, now_s)
    body = method == "GET"
    match target.partition("?")[0]:
        case "/orca":
            application = {} if shown is None else shown.application
            value = None if record is None else orca_report.text(orca_report.joined(record, application))
            if value is None:
                return _response(503, "There is no sample now.\n", body=body)
            return _response(200, f"{value}\n", [f"{orca_report.HEADER}: {value}"], body=body)
        case "/metrics":
            text = metrics.prometheus(shown, record, cpu_s=cpu_s)
            return _response(200, text, content_type=metrics.PROMETHEUS_TYPE, body=body)
    return _response(404, "There are /orca and /metrics.\n", body=body)


def _response(
    code: int, text: str, headers: list[str] | None = None, *, content_type: str = PLAIN, body: bool = True
) -> bytes:
    content = text.encode()
    lines = [
        f"HTTP/1.1 {code} {REASONS[code]}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(content)}",
        "Cache-Control: no-store",
        "Connection: close",
        *(headers or []),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (content if body else b"")
