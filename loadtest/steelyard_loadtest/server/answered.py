"""The requests of a load: their count in a file, the load report of each answer, and the workers.

A server whose CPU quota is used up cannot answer a question, but its count file can be read.

The load report is the agent's newest ORCA value with the rate of requests added, which the agent cannot know:

    TEXT cpu_utilization=0.42,named_metrics.io=0.1,rps_fractional=118.5

Envoy's client_side_weighted_round_robin divides the rate by the utilization.
(xds.data.orca.v3.OrcaLoadReport, as text.)

A server may have a bounded pool of workers, like PHP-FPM or Gunicorn. A request holds a worker until it is
answered, whether it computes or waits. The others wait for a worker in order of arrival. So a pool can be
full while the CPU idles (`/sleep`). `/metrics` shows its use, and the number of answers. It takes no worker:

    demo_requests_total     demo_workers_busy / demo_workers
"""

import asyncio
import contextlib
import mmap
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COUNTED = frozenset({"/", "/io", "/bytes", "/sleep"})
"""Paths of a load; the lab's own requests use other paths."""

COUNT_BYTES = 8

HEADER = "endpoint-load-metrics"

METRICS = "/metrics"

RATE = "rps_fractional="

READ_EVERY_S = 0.25
"""The agent writes about once a second; reading the file costs more than a request."""

WINDOW_S = 1.0
"""The agent's own interval, so that both parts of the report are from about the same time."""


class Count:
    """A counter in a file of 8 bytes, or in memory without one.

    One thread adds. The 8 bytes are written at once, so that no reader sees half of a number. They have the
    machine's order, which is little endian everywhere this runs.
    """

    def __init__(self, file: Path | None) -> None:
        """Begin at 0; raise OSError when the file cannot be written."""
        self._number = memoryview(_mapped(file) if file else mmap.mmap(-1, COUNT_BYTES)).cast("Q")

    def add(self) -> None:
        """Count one more."""
        self._number[0] += 1

    def value(self) -> int:
        """Return the number."""
        return self._number[0]


class LoadReport:
    """A header's name and value, read again at most every READ_EVERY_S.

    `answered` returns the number of requests answered so far; `clock` is monotonic.
    """

    def __init__(
        self, file: Path, answered: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file, self._answered, self._clock = file, answered, clock
        self._seen: deque[tuple[float, int]] = deque()
        self._header: tuple[bytes, bytes] | None = None

    def header(self) -> tuple[bytes, bytes] | None:
        """Return the header; None without a file, or if it does not hold an agent's value."""
        now_s = self._clock()
        if not self._seen or now_s - self._seen[-1][0] >= READ_EVERY_S:
            value = with_rate(self._text(), self._rate_per_s(now_s))
            self._header = (HEADER.encode(), value.encode()) if value else None
        return self._header

    def _rate_per_s(self, now_s: float) -> float | None:
        self._seen.append((now_s, self._answered()))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else None

    def _text(self) -> str:
        try:
            return self._file.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            return ""


class Answered:
    """Wraps an ASGI application: counts its answers to a load, and adds the newest load report to them.

    workers: most requests of the load in it at a time, while the others wait; None: no bound.
    """

    def __init__(
        self, app: ASGIApp, count: Count, report: LoadReport | None = None, workers: int | None = None
    ) -> None:
        self._app, self._count, self._report, self._workers = app, count, report, workers
        self._free = asyncio.Semaphore(workers) if workers else contextlib.nullcontext()
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; a request of the load waits for a free worker."""
        path = scope["path"] if scope["type"] == "http" else ""
        if path == METRICS:
            await PlainTextResponse(self._metrics())(scope, receive, send)
            return
        if path not in COUNTED:
            await self._app(scope, receive, send)
            return
        header = self._report.header() if self._report else None

        async def send_with_report(message: Message) -> None:
            if header and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], header]
            await send(message)

        async with self._free:
            self._busy += 1
            try:
                await self._app(scope, receive, send_with_report if header else send)
            finally:
                self._busy -= 1
        self._count.add()

    def _metrics(self) -> str:
        metrics = [("demo_requests_total", "counter", "Answers to a load.", self._count.value())]
        if self._workers:
            metrics += [
                ("demo_workers_busy", "gauge", "Workers that have a request.", self._busy),
                ("demo_workers", "gauge", "Workers in all.", self._workers),
            ]
        return "".join(
            f"# HELP {name} {about}\n# TYPE {name} {kind}\n{name} {value}\n"
            for name, kind, about, value in metrics
        )


def with_rate(text: str, rate_per_s: float | None) -> str | None:
    """Return the value in an agent's file, with the rate added if it is missing; None if it is none."""
    value = text.strip()
    if not value.startswith("TEXT "):
        return None
    return value if rate_per_s is None or RATE in value else f"{value},{RATE}{rate_per_s:.3f}"


def _mapped(file: Path) -> mmap.mmap:
    # Replaced, not overwritten: a process that has it mapped would crash if it were cut short.
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_bytes(bytes(COUNT_BYTES))
    with fresh.open("r+b") as stream:
        mapped = mmap.mmap(stream.fileno(), COUNT_BYTES)
    fresh.replace(file)
    return mapped
