"""Single requests, the kinds of failed ones, and the outcome of a load. Pure.

A request counts if it was due (open loop) or sent (closed loop) in the counted part, however long its answer
took. A request that ends after the part counts; a request under way at its begin does not.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from steelyard_loadtest.machine.errors import UnreadableError
from steelyard_loadtest.measurements.trials import Outcome, nearest_rank, quantiles
from steelyard_loadtest.reporting.statistics import grouped

TIMEOUT = "timeout"
REFUSED = "refused"
RESET = "reset"
UNANSWERED = "unanswered"
"""Under way at the end of the load, and still so after the time for such requests."""

FAILED_FROM = 400

LONGEST_KIND = 60
"""Characters kept of an error without a kind of its own: a column of a table, not a log."""


def of_status(status: int) -> str:
    """Return the kind of an HTTP status: itself, or "" for a good answer."""
    return str(status) if status >= FAILED_FROM else ""


def of_error(error: BaseException) -> str:
    """Return the kind of an error instead of an answer."""
    if isinstance(error, TimeoutError):
        return TIMEOUT
    if isinstance(error, ConnectionRefusedError):
        return REFUSED
    # geventhttpclient's error for a server that closes without an answer has no base class but its own.
    if isinstance(error, ConnectionError) or type(error).__name__ == "HTTPConnectionClosed":
        return RESET
    return "other: " + " ".join(f"{type(error).__name__} {error}".split())[:LONGEST_KIND].strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: the monotonic second in which it was due or sent, and its latency.

    failure: "" or the kind of failure.
    """

    due_s: float
    latency_ms: float
    failure: str


def line_of(request: Request) -> str:
    """Return the line that `read_requests` reads."""
    return f"{request.due_s!r},{request.latency_ms:.3f},{request.failure}\n"


def read_requests(lines: Iterable[str]) -> list[Request]:
    """Return the requests of these lines. Raises UnreadableError."""
    try:
        fields = (line.rstrip("\n").split(",", 2) for line in lines)
        return [Request(due_s=float(due), latency_ms=float(ms), failure=why) for due, ms, why in fields]
    except ValueError as error:
        raise UnreadableError(f"a request's line is not as it was written: {error}") from None


def tally(
    requests: Sequence[Request],
    *,
    began_s: float,
    seconds: float,
    cpu_s: float | None,
    cuts_s: Sequence[float] = (),
) -> Outcome:
    """Return the outcome of the requests of a part of a load; cpu_s: the generator's CPU time in it.

    cuts_s: moments of that part, ascending, between which each phase has an outcome of its own.

    concurrency is the time that requests spent in flight within that part, divided by its length. It includes
    earlier requests, because they are part of the load.
    """
    until_s = began_s + seconds
    counted = [one for one in requests if began_s <= one.due_s < until_s]
    good = [one for one in counted if not one.failure]
    ordered = sorted(one.latency_ms for one in good)
    kinds = Counter(one.failure for one in counted if one.failure)
    in_flight_s = sum(
        max(min(one.due_s + one.latency_ms / 1000, until_s) - max(one.due_s, began_s), 0.0)
        for one in requests
    )
    inner = [cut for cut in cuts_s if 0 < cut < seconds]
    phases = pairwise([0.0, *inner, seconds]) if inner else ()
    by_second = grouped(good, lambda one: math.floor(one.due_s - began_s))
    return Outcome(
        seconds=seconds,
        requests=len(counted),
        failures=kinds.total(),
        kinds=dict(sorted(kinds.items())),
        mean_ms=fmean(ordered) if ordered else None,
        min_ms=ordered[0] if ordered else None,
        max_ms=ordered[-1] if ordered else None,
        quantiles=quantiles(ordered),
        concurrency=in_flight_s / seconds,
        generator_cpu_utilization=None if cpu_s is None else cpu_s / seconds,
        phases=tuple(
            tally(requests, began_s=began_s + begin, seconds=end - begin, cpu_s=None) for begin, end in phases
        ),
        p99_by_second_ms=tuple(
            nearest_rank(sorted(one.latency_ms for one in by_second.get(second, ())), 0.99)
            for second in range(math.ceil(seconds))
        ),
    )
