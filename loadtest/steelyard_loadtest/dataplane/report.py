"""From rounds, which are compare's trials, to medians, ratios and targets, and these as Markdown. Pure.

A trial's level is a number of servers, its repeat a round.

Rounds of all contenders alternate, so that a noisy minute affects all of them. Comparisons are between
medians of the same run. So every target is a ratio of such medians, which means the same on a slow machine as
on a fast one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from steelyard_loadtest.dataplane.contenders import BASE, BY_NAME
from steelyard_loadtest.figures.trial_figures import Summary, figures, summarize
from steelyard_loadtest.measurements.trials import Measured
from steelyard_loadtest.reporting.markdown import (
    Column,
    Table,
    bullets,
    document,
    image,
    markdown,
    pivot,
    table,
    text_columns,
)
from steelyard_loadtest.reporting.statistics import Spread, spread
from steelyard_loadtest.reporting.wording import MB, number, percent

MANY, FEW = 2000, 3
ORDER = list(BY_NAME)
# The judged pickers; the cost of lua-resty-balancer's is its own.
OURS = [name for name in ORDER if BY_NAME[name].ours and not name.startswith("resty-")]

CPU, P99 = "balancer_cpu_us_per_request", "p99_ms"
RATIO = "ratio"
"""For a proxy: its CPU per request over that of nginx's SWRR with the same servers in the same run."""

TARGETS = (
    ("CPU at 2000 servers / nginx SWRR", 0.40, MANY, BASE, MANY),
    ("CPU at 2000 servers / HAProxy roundrobin", 1.15, MANY, "haproxy-roundrobin", MANY),
    ("CPU at 3 servers / nginx SWRR", 1.15, FEW, BASE, FEW),
    ("CPU at 2000 servers / its own at 3", 1.25, MANY, None, FEW),
)
"""Title, bound, number of servers, compared contender (None: its own figure), its number of servers."""


def rows(measured: Sequence[Measured]) -> list[Summary]:
    """Return a row for each number of servers and contender with a round, in their order.

    A proxy's metrics include RATIO.
    """
    summaries = summarize(figures(entry, ()) for entry in measured)
    summaries.sort(key=lambda row: (row.level, ORDER.index(row.algorithm)))
    ended = []
    for row in summaries:
        cpu_us, base_us = cpu(row), cpu(find(summaries, BASE, row.level))
        more = {RATIO: spread([cpu_us / base_us])} if cpu_us and base_us else {}
        ended.append(replace(row, metrics={**row.metrics, **more}))
    return ended


def find(rows: Sequence[Summary], contender: str, peers: float) -> Summary | None:
    """Return the row of a contender at a number of servers."""
    return next((row for row in rows if (row.algorithm, row.level) == (contender, peers)), None)


def cpu(row: Summary | None) -> float | None:
    """Return the median CPU per request in µs; None if there is none."""
    return row.metrics[CPU].median if row and CPU in row.metrics else None


def targets(rows: Sequence[Summary]) -> Table:
    """Judge everything that was measured; the rest has no line."""
    judged = []
    for target, bound, count, other, other_count in TARGETS:
        for name in OURS:
            over, under = cpu(find(rows, name, count)), cpu(find(rows, other or name, other_count))
            if over is not None and under:
                judged.append((target, name, over / under, bound))
    lines = [
        [
            *(target, BY_NAME[name].method, number(value, 2), number(bound, 2)),
            "met" if value <= bound else f"missed by {percent(value / bound - 1)}",
        ]
        for target, name, value, bound in judged
    ]
    return text_columns(["target", "picker", "measured", "at most", ""], lines)


def overview(rows: Sequence[Summary]) -> Table:
    """Return CPU per request and its ratio, one line a contender and one column a number of servers."""
    return pivot(
        "CPU µs per request (× nginx SWRR)",
        list(dict.fromkeys(row.algorithm for row in rows if CPU in row.metrics)),
        sorted({row.level for row in rows}),
        lambda name, count: _cost(find(rows, name, count)),
        row_text=lambda name: BY_NAME[name].title,
        column_text=_servers,
    )


def page(
    rows: Sequence[Summary],
    *,
    conditions: Mapping[str, str],
    missing: Mapping[str, str],
    plot: str | None,
) -> str:
    """Return all of it as a section; `missing` has the reason for each contender without figures."""
    counts = sorted({row.level for row in rows})
    return document(
        bullets(conditions),
        bullets(missing, "Not measured:"),
        markdown(overview(rows)) if rows else None,
        image("CPU per request against the number of servers", plot),
        _section("Targets", targets(rows)),
        *(
            _section(_servers(each), table([row for row in rows if row.level == each], DETAILS))
            for each in counts
        ),
    )


def _section(title: str, shown: Table) -> str | None:
    return f"### {title}\n\n{markdown(shown)}" if shown.lines else None


def _servers(count: float) -> str:
    return f"{count:,.0f} servers"


def _cost(row: Summary | None) -> str | None:
    ratio = row.metrics.get(RATIO) if row else None
    return number(cpu(row), 1) + (f" ({ratio.median:.2f})" if ratio else "")


def _range(figure: Spread | None, digits: int) -> str | None:
    return f"{figure.lowest:.{digits}f}..{figure.highest:.{digits}f}" if figure else None


def _figure(heading: str, metric: str, text: Callable[[float | None], str]) -> Column[Summary]:
    """A column of medians."""
    return Column(heading, lambda row: text(row.metrics[metric].median if metric in row.metrics else None))


def _decimals(digits: int) -> Callable[[float | None], str]:
    return lambda value: number(value, digits)


DETAILS = (
    Column[Summary]("", lambda row: BY_NAME[row.algorithm].title, "left"),
    _figure("CPU µs/request", CPU, _decimals(1)),
    Column[Summary]("lowest..highest", lambda row: _range(row.metrics.get(CPU), 1)),
    _figure("× nginx SWRR", RATIO, _decimals(2)),
    _figure("requests/s", "requests_per_s", _decimals(0)),
    _figure("p50 ms", "p50_ms", _decimals(2)),
    _figure("p99 ms", P99, _decimals(2)),
    _figure("resident MB", "balancer_resident_bytes", lambda size: number(size and size / MB, 0)),
    _figure("core used", "balancer_cpu_cores", percent),
    Column[Summary]("failed", lambda row: f"{row.failures:,}"),
    Column[Summary]("rounds", lambda row: str(len(row.trials))),
)
