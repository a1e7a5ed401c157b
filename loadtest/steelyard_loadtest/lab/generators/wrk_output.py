"""The script that makes wrk tell its figures, and what it tells. Pure.

Two things are wrk's own way (its source, wrk.c and stats.c, 4.1): its latencies are
those of all answers, failures too; and it adds entries for requests that a slow
answer kept from being sent: those of more than twice the average interval count
again, shorter by one interval each time. vproxy's figures were made so too.
"""

import re

from steelyard_loadtest.lab.generators.failures import FAILED_FROM, REFUSED, RESET, TIMEOUT
from steelyard_loadtest.lab.generators.quantiles import PARTS
from steelyard_loadtest.lab.records import Outcome, Quantile
from steelyard_loadtest.machine.errors import UnreadableError

STATUS = f"status {FAILED_FROM} and above"
"""wrk counts failed answers without their status; a script that looked at each would cost as much as wrk."""

# The ends are asked by name: percentile(100) looks for one more than there are.
SCRIPT = f"""\
-- Only `done`: a script without `request` and `response` costs a request nothing.
local parts = {{ {", ".join(f"{part:.5f}" for part in PARTS if 0 < part < 1)} }}

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format("figures requests=%d duration_us=%d status=%d timeout=%d connect=%d broken=%d\\n",
        summary.requests, summary.duration, errors.status, errors.timeout, errors.connect,
        errors.read + errors.write))
    if latency.max > 0 then
        io.write(string.format("latency mean_us=%.1f min_us=%d max_us=%d\\n",
            latency.mean, latency.min, latency.max))
        for _, part in ipairs(parts) do
            io.write(string.format("quantile %.5f %d\\n", part, latency:percentile(part * 100)))
        end
    end
end
"""

_FIGURES = re.compile(
    r"^figures requests=(\d+) duration_us=(\d+) status=(\d+) timeout=(\d+) connect=(\d+) broken=(\d+)$",
    re.MULTILINE,
)
_LATENCY = re.compile(r"^latency mean_us=([\d.]+) min_us=(\d+) max_us=(\d+)$", re.MULTILINE)
_QUANTILE = re.compile(r"^quantile ([\d.]+) (\d+)$", re.MULTILINE)


def parse_wrk(said: str, *, connections: int, cpu_s: float) -> Outcome:
    """Return the outcome of what wrk with SCRIPT said; cpu_s: its CPU time. Raises UnreadableError.

    Requests are those that were answered in time, and connections that broke.
    Concurrency is by Little's law, and no more than there are connections.
    """
    figures = _FIGURES.search(said)
    if figures is None:
        raise UnreadableError(f"it told no figures: {said[-300:].strip() or 'it said nothing'}")
    answered, duration_us, status, timeout, connect, broken = map(int, figures.groups())
    counts = {STATUS: status, TIMEOUT: timeout, REFUSED: connect, RESET: broken}
    kinds = {kind: count for kind, count in counts.items() if count}
    seconds = duration_us / 1e6
    latency = _LATENCY.search(said)
    mean_ms = float(latency[1]) / 1000 if latency else None
    min_ms = int(latency[2]) / 1000 if latency else None
    max_ms = int(latency[3]) / 1000 if latency else None
    in_flight = (mean_ms or 0.0) / 1000 * answered / seconds
    return Outcome(
        seconds=seconds,
        requests=answered + connect + broken,
        failures=sum(kinds.values()),
        kinds=dict(sorted(kinds.items())),
        mean_ms=mean_ms,
        min_ms=min_ms,
        max_ms=max_ms,
        quantiles=_quantiles(said, min_ms, max_ms),
        concurrency=min(in_flight, float(connections)),
        generator_cpu_utilization=cpu_s / seconds,
    )


def _quantiles(said: str, min_ms: float | None, max_ms: float | None) -> tuple[Quantile, ...]:
    if min_ms is None or max_ms is None:
        return ()
    inner = [Quantile(part=float(part), ms=int(us) / 1000) for part, us in _QUANTILE.findall(said)]
    return (Quantile(part=0.0, ms=min_ms), *inner, Quantile(part=1.0, ms=max_ms))
