"""Evidence out of a comparison's summaries and the data plane benchmark's CSV. Pure."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from steelyard_loadtest.lab.figures.summary import Summary
from steelyard_loadtest.lab.findings.evidence import DATAPLANE, Evidence, Figures

SLOW_SERVER = "server-10"
"""The one of scenario `slow-one` that answers ten times as late as the others."""

_DATAPLANE_METRICS = {
    "requests_per_s": "requests_per_s",
    "p50_ms": "p50_ms",
    "p99_ms": "p99_ms",
    "cpu_us_per_request": "balancer_cpu_us_per_request",
}
"""Its columns and what they are called here."""


def gather(summaries: Iterable[Summary], dataplane: Sequence[Mapping[str, str]] | None) -> Evidence:
    """Bring both into one form; `dataplane` is dataplane.csv by `csv.DictReader`."""
    figures = {
        (summary.scenario, summary.algorithm, summary.level): _figures(summary) for summary in summaries
    }
    return Evidence({**figures, **_dataplane(dataplane or ())})


def _figures(summary: Summary) -> Figures:
    """A summary's means, and what follows from them."""
    found = {name: spread.mean for name, spread in summary.metrics.items()}
    if found.get("p50_ms") and "p99_ms" in found:
        found["p99_over_p50"] = found["p99_ms"] / found["p50_ms"]
    answered = [cell.shares for cell in summary.cells if cell.shares]
    if answered:
        found["largest_share"] = statistics.fmean(max(shares.values()) for shares in answered)
    slow = [shares[SLOW_SERVER] for shares in answered if SLOW_SERVER in shares]
    if slow:
        found["slow_share"] = statistics.fmean(slow)
    return found


def _dataplane(rows: Sequence[Mapping[str, str]]) -> dict[tuple[str, str, float], Figures]:
    """Medians of the rounds, as docs/benchmarks-dataplane.md gives them."""
    rounds: dict[tuple[str, str, float], list[Mapping[str, str]]] = {}
    for row in rows:
        rounds.setdefault((DATAPLANE, row["contender"], float(row["peers"])), []).append(row)
    return {
        key: {
            name: statistics.median(values)
            for column, name in _DATAPLANE_METRICS.items()
            if (values := [float(row[column]) for row in entries if row[column]])
        }
        for key, entries in rounds.items()
    }
