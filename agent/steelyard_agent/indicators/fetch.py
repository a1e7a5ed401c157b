"""Fetches a source's text: from a URL, a file or a command, in bounded time and size. I/O only."""

import ssl
import threading
from functools import cache
from http.client import HTTPException
from urllib.parse import urlsplit

from steelyard_agent import http_exchange, regular_file
from steelyard_agent.indicators import run_command
from steelyard_agent.indicators.declared import Source
from steelyard_agent.indicators.text_formats import SourceError
from steelyard_agent.log_text import one_line

# A page of metrics of a large server has some 100 kB.
MOST_BYTES = 1024 * 1024

# `text_formats` reads all of them; some programs have OpenMetrics only.
ACCEPTED = (
    "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.8, application/json, */*;q=0.5"
)

# Remedies for an HTTP status.
REMEDIES = {
    401: "have a command ask, with the password",
    403: "have it allow this address, or have a command ask, with the password",
    404: "its path is another one",
}

# Once: it reads all certificates of the system.
_system_trust = cache(ssl.create_default_context)


def fetch(source: Source, timeout_s: float, stop: threading.Event) -> str:
    """Return a source's text; raise `SourceError`. If `stop` is set, a command is not waited for."""
    try:
        match source.kind:
            case "http":
                answer = _http(str(source.target), timeout_s)
            case "file":
                answer = regular_file.read(str(source.target), MOST_BYTES + 1)
            case "command":
                answer = run_command.run(tuple(source.target), timeout_s, MOST_BYTES + 1, stop)
    except TimeoutError:
        raise SourceError(
            f"no answer within {timeout_s:g} s: if it is always slow, give every more"
        ) from None
    except (OSError, HTTPException, UnicodeError) as error:  # the last one: an impossible host name
        raise SourceError(http_exchange.reason(error)) from None
    if len(answer) > MOST_BYTES:
        raise SourceError(f"it is longer than {MOST_BYTES // 1024} KiB: ask for less of it")
    return answer.decode("utf-8", "replace")


def _http(url: str, timeout_s: float) -> bytes:
    parts = urlsplit(url)
    answer = http_exchange.exchange(
        "GET",
        str(parts.hostname),
        parts.port,
        (parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        trust=_system_trust() if parts.scheme == "https" else None,
        headers={"Accept": ACCEPTED},
        timeout_s=timeout_s,
        most_bytes=MOST_BYTES + 1,
    )
    if answer.location is not None and 300 <= answer.status < 400:
        raise SourceError(
            f"it answers {answer.status}, and redirections are not followed: give {one_line(answer.location)}"
        )
    if answer.status != 200:
        remedy = REMEDIES.get(answer.status)
        raise SourceError(f"it answers {answer.status}" + (f": {remedy}" if remedy else ""))
    return answer.body
