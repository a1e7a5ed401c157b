"""The script that makes wrk tell its figures, and what it tells.

Some things are wrk's own way (its source, wrk.c and stats.c, 4.1): its latencies are
those of all answers, failures too, and do not have the time to connect in them; what
is under way at the end is counted nowhere; and it adds entries for requests that a
slow answer kept from being sent: those of more than twice the average interval count
again, shorter by one interval each time. vproxy's figures were made so too.
"""

import re
from pathlib import Path

from steelyard_loadtest.generators.tally import FAILED_FROM, REFUSED, RESET, TIMEOUT
from steelyard_loadtest.machine.errors import UnreadableError
from steelyard_loadtest.measurements.percentiles import PARTS, Quantile
from steelyard_loadtest.measurements.trials import Outcome
from steelyard_loadtest.templates import render_file

TEMPLATE = Path(__file__).with_name("templates") / "wrk.lua"

STATUS = f"status {FAILED_FROM} and above"
"""wrk counts failed answers without their status; a script that looked at each would cost as much as wrk."""

_FIGURES = re.compile(
    r"^figures requests=(\d+) duration_us=(\d+) status=(\d+) timeout=(\d+) connect=(\d+) broken=(\d+)$",
    re.MULTILINE,
)
_LATENCY = re.compile(r"^latency mean_us=([\d.]+) min_us=(\d+) max_us=(\d+)$", re.MULTILINE)
_QUANTILE = re.compile(r"^quantile ([\d.]+) (\d+)$", re.MULTILINE)


def script(think_ms: float = 0.0) -> str:
    """Return the script; think_ms: how long users wait on average between two requests."""
    # The ends are asked by name: percentile(100) looks for one more than there are.
    parts = [f"{part:.5f}" for part in PARTS if 0 < part < 1]
    return render_file(TEMPLATE, {"parts": parts, "think_ms": think_ms})


def parse_wrk(said: str, *, connections: int, cpu_s: float) -> Outcome:
    """Return the outcome of what wrk with the script said; cpu_s: its CPU time. Raises UnreadableError.

    Requests are those that were answered in time, and connections that broke.
    Concurrency is by Little's law, and no more than there are connections.
    """
    figures = _FIGURES.search(said)
    if figures is None:
        raise UnreadableError(f"it told no figures: {said[-300:].strip() or 'it said nothing'}")
    answered, duration_us, status, timeout, connect, broken = map(int, figures.groups())
    if not duration_us:
        raise UnreadableError("it measured no time")
    counts = {STATUS: status, TIMEOUT: timeout, REFUSED: connect, RESET: broken}
    seconds = duration_us / 1e6
    mean_ms = min_ms = max_ms = None
    points: list[Quantile] = []
    if latency := _LATENCY.search(said):
        mean_ms, min_ms, max_ms = (float(us) / 1000 for us in latency.groups())
        inner = [Quantile(part=float(part), ms=int(us) / 1000) for part, us in _QUANTILE.findall(said)]
        points = [Quantile(part=0.0, ms=min_ms), *inner, Quantile(part=1.0, ms=max_ms)]
    return Outcome(
        seconds=seconds,
        requests=answered + connect + broken,
        failures=sum(counts.values()),
        kinds={kind: count for kind, count in sorted(counts.items()) if count},
        mean_ms=mean_ms,
        min_ms=min_ms,
        max_ms=max_ms,
        quantiles=tuple(points),
        concurrency=min((mean_ms or 0.0) / 1000 * answered / seconds, float(connections)),
        generator_cpu_utilization=cpu_s / seconds,
    )
