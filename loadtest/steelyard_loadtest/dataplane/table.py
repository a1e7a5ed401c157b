"""The figures as Markdown. Pure."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from steelyard_loadtest.dataplane import medians
from steelyard_loadtest.dataplane.contenders import BASE, BY_NAME
from steelyard_loadtest.figures.trial_figures import Summary
from steelyard_loadtest.reporting.markdown import Column, bullets, document, image, markdown, pivot, table
from steelyard_loadtest.reporting.wording import MB, number, percent

T = TypeVar("T")


def overview(rows: Sequence[Summary]) -> str:
    """CPU per request and its ratio, one line a contender and one column a number of servers."""
    return markdown(
        pivot(
            "CPU µs per request (× nginx SWRR)",
            list(dict.fromkeys(row.algorithm for row in rows if medians.CPU in row.metrics)),
            sorted({row.level for row in rows}),
            lambda name, count: _cost(medians.find(rows, name, count)),
            row_text=lambda name: BY_NAME[name].title,
            column_text=_servers,
        )
    )


def page(
    *,
    conditions: Mapping[str, str],
    rows: Sequence[Summary],
    changes: Sequence[Summary],
    verdicts: Sequence[medians.Verdict],
    missing: Mapping[str, str],
    plot: str | None,
) -> str:
    """All of it as a section; `missing` says for each contender why it has no figures."""
    counts = sorted({row.level for row in rows})
    return document(
        bullets(conditions),
        bullets(missing, "Not measured:"),
        overview(rows) if rows else None,
        image("CPU per request against the number of servers", plot) if rows else None,
        _section("Targets", verdicts, TARGETS),
        *(_section(_servers(each), [row for row in rows if row.level == each], DETAILS) for each in counts),
        _section(f"A change of all {medians.MANY} weights", changes, CHANGES),
    )


def _section(title: str, rows: Sequence[T], columns: Sequence[Column[T]]) -> str | None:
    return f"### {title}\n\n{markdown(table(rows, columns))}" if rows else None


def _servers(count: float) -> str:
    return f"{count:,.0f} servers"


def _cost(row: Summary | None) -> str | None:
    if row is None or medians.CPU not in row.metrics:
        return None
    ratio = row.metrics.get(medians.RATIO)
    return number(row.metrics[medians.CPU].median, 1) + (f" ({ratio.median:.2f})" if ratio else "")


def _value(row: Summary, metric: str, of: str = "median") -> float | None:
    value: float | None = getattr(row.metrics.get(metric), of, None)
    return value


def _figure(heading: str, metric: str, digits: int, unit: int = 1) -> Column[Summary]:
    def field(row: Summary) -> str:
        value = _value(row, metric)
        return number(None if value is None else value / unit, digits)

    return Column(heading, field)


def _range(heading: str, metric: str, digits: int) -> Column[Summary]:
    def field(row: Summary) -> str | None:
        figure = row.metrics.get(metric)
        return f"{figure.lowest:.{digits}f}..{figure.highest:.{digits}f}" if figure else None

    return Column(heading, field)


def _changed(row: Summary) -> str:
    return BY_NAME[row.algorithm].title + (" (nothing changes)" if row.algorithm == BASE else "")


DETAILS = (
    Column[Summary]("", lambda row: BY_NAME[row.algorithm].title, "left"),
    _figure("CPU µs/request", medians.CPU, 1),
    _range("lowest..highest", medians.CPU, 1),
    _figure("× nginx SWRR", medians.RATIO, 2),
    _figure("requests/s", "requests_per_s", 0),
    _figure("p50 ms", "p50_ms", 2),
    _figure("p99 ms", medians.P99, 2),
    _figure("resident MB", medians.RESIDENT, 0, MB),
    Column[Summary]("core used", lambda row: percent(_value(row, medians.CORES))),
    _figure("failed", medians.FAILED, 0),
    Column[Summary]("rounds", lambda row: str(len(row.trials))),
)
CHANGES = (
    Column[Summary]("", _changed, "left"),
    _figure("p99 ms before", medians.P99_BEFORE, 2),
    _figure("p99 ms after", medians.P99, 2),
    _figure("after / before", medians.RATIO_OF_MEDIANS, 2),
    _range("round by round", medians.RATIO, 2),
    Column[Summary]("slowest ms after", lambda row: number(_value(row, "max_ms", "highest"), 1)),
    _figure("failed", medians.FAILED, 0),
)
TARGETS = (
    Column[medians.Verdict]("target", lambda verdict: verdict.target, "left"),
    Column[medians.Verdict]("picker", lambda verdict: BY_NAME[verdict.contender].method),
    Column[medians.Verdict]("measured", lambda verdict: number(verdict.value, 2)),
    Column[medians.Verdict]("at most", lambda verdict: number(verdict.bound, 2)),
    Column[medians.Verdict](
        "", lambda one: "met" if one.met else f"missed by {percent(one.value / one.bound - 1)}"
    ),
)
