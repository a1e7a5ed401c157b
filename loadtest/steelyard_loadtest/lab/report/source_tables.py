"""The tables of the sources, with what was measured here: the locust study's two, and vproxy's. Pure.

The study (IC-PFG-21-49, tables 1 to 16) gives the mean of three repeats and its
deviation in a column of its own; so do these.
"""

from collections.abc import Sequence

from steelyard_loadtest.lab.figures.summary import Spread, Summary
from steelyard_loadtest.lab.report import wording
from steelyard_loadtest.lab.report.table import Line, Table, mark, without_empty
from steelyard_loadtest.lab.report.view import View

COUNTS = (
    ("total requests", "requests", 0),
    ("RPS", "requests_per_s", 2),
    ("failures/s", "failures_per_s", 2),
)
LATENCIES = (
    ("median ms", "p50_ms", 1),
    ("mean ms", "mean_ms", 1),
    ("min ms", "min_ms", 1),
    ("max ms", "max_ms", 1),
)
WRK = (
    ("requests/s", "requests_per_s", 0),
    ("50 % ms", "p50_ms", 3),
    ("75 % ms", "p75_ms", 3),
    ("90 % ms", "p90_ms", 3),
    ("99 % ms", "p99_ms", 3),
    ("max ms", "max_ms", 2),
    ("balancer CPU cores", "balancer_cpu_cores", 2),
    ("CPU µs/request", "balancer_cpu_us_per_request", 1),
)

Columns = Sequence[tuple[str, str, int]]


def source_tables(view: View) -> list[Table]:
    """Return the tables that the source of a scenario's generator prints; none for the others."""
    if not view.summaries:
        return []
    if view.scenario.load.generator == "locust":
        return [
            _study(view, "Total requests, RPS and failures per second", COUNTS),
            _study(view, "Median, mean, minimal and maximal latency", LATENCIES),
        ]
    if view.scenario.load.generator == "wrk":
        return [_vproxy(view)]
    return []


def _study(view: View, title: str, columns: Columns) -> Table:
    sigmas = [text for name, _, _ in columns for text in (name, "σ")]
    head, lines = without_empty(
        ("users", "algorithm", *sigmas),
        [_line(view, summary, _with_sigmas(summary, columns)) for summary in view.summaries],
    )
    return Table(
        title=title,
        note="As in the locust study: means over the repeats, each with its sample deviation σ.",
        head=head,
        lines=lines,
        words=2,
    )


def _vproxy(view: View) -> Table:
    return Table(
        title="Requests per second and latency distribution",
        note="As vproxy's benchmark, which prints wrk's figures; here medians over the repeats.",
        head=("connections", "algorithm", *(name for name, _, _ in WRK)),
        lines=tuple(
            _line(
                view,
                summary,
                [wording.median(summary.metrics.get(metric), digits) for _, metric, digits in WRK],
            )
            for summary in view.summaries
        ),
        words=2,
    )


def _line(view: View, summary: Summary, cells: Sequence[str]) -> Line:
    level = wording.level_number(view.scenario.load, summary.level)
    return Line(cells=(level, wording.title(summary.algorithm), *cells), mark=mark(summary.algorithm))


def _with_sigmas(summary: Summary, columns: Columns) -> list[str]:
    return [
        text for _, metric, digits in columns for text in _mean_and_sigma(summary.metrics.get(metric), digits)
    ]


def _mean_and_sigma(spread: Spread | None, digits: int) -> tuple[str, str]:
    if spread is None:
        return (wording.ABSENT, wording.ABSENT)
    return (wording.number(spread.mean, digits), wording.number(spread.sigma, digits))
