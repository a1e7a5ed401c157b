"""From single requests to the outcome of a load. Pure.

A request counts when it was due (open loop) or sent (closed loop) in the counted
part, however long its answer took: one that ends after it is part of it, one that
was on its way when it began is not.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from steelyard_loadtest.lab.generators.quantiles import quantiles
from steelyard_loadtest.lab.records import Outcome
from steelyard_loadtest.machine.errors import UnreadableError


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: the monotonic second in which it was due or sent, and its latency.

    failure: "" or the kind of failure, as `failures` has them.
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


def tally(requests: Sequence[Request], *, began_s: float, seconds: float, cpu_s: float) -> Outcome:
    """Return the outcome of the requests of a part of a load; cpu_s: the generator's CPU time in it.

    concurrency is the time that requests spent in flight within that part, by its
    length; requests from before are in it, being part of the load.
    """
    until_s = began_s + seconds
    counted = [one for one in requests if began_s <= one.due_s < until_s]
    kinds = Counter(one.failure for one in counted if one.failure)
    latencies_ms = sorted(one.latency_ms for one in counted if not one.failure)
    in_flight_s = sum(
        max(min(one.due_s + one.latency_ms / 1000, until_s) - max(one.due_s, began_s), 0.0)
        for one in requests
    )
    return Outcome(
        seconds=seconds,
        requests=len(counted),
        failures=kinds.total(),
        kinds=dict(sorted(kinds.items())),
        mean_ms=fmean(latencies_ms) if latencies_ms else None,
        min_ms=latencies_ms[0] if latencies_ms else None,
        max_ms=latencies_ms[-1] if latencies_ms else None,
        quantiles=quantiles(latencies_ms),
        concurrency=in_flight_s / seconds,
        generator_cpu_utilization=cpu_s / seconds,
    )
