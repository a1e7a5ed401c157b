"""A scenario's own tables: p99 over the levels, and for each level latency, balance and failures. Pure."""

from collections.abc import Sequence

from steelyard_loadtest.lab.figures.summary import Summary
from steelyard_loadtest.lab.figures.verdict import FAILURES_AT_MOST
from steelyard_loadtest.lab.report import wording
from steelyard_loadtest.lab.report.table import Line, Table, mark, without_empty
from steelyard_loadtest.lab.report.view import View

SHARES_OF = 5
"""With more servers the shares are in servers.csv and in the plots."""

SIGMA = "Medians over the repeats; ± is their sample deviation σ."


def overview(view: View) -> list[Table]:
    """Lay out p99 by algorithm and level; none with one level, which has it in its own table."""
    levels = view.levels
    if len(levels) < 2:
        return []
    return [
        Table(
            title="p99 in ms at each level",
            note=f"{SIGMA} † over {FAILURES_AT_MOST * 100:g} % failed, and p99 is of the rest.",
            head=("algorithm", "kind", *(wording.level(view.scenario.load, level) for level in levels)),
            lines=tuple(
                Line(
                    cells=(
                        wording.title(name),
                        wording.kind(name),
                        *(_p99(view.find(name, level)) for level in levels),
                    ),
                    mark=mark(name),
                )
                for name in view.scenario.algorithms
                if name in view.algorithms
            ),
            words=2,
        )
    ]


def by_level(view: View, level: float, *, folded: bool) -> list[Table]:
    """Return the tables of one level: latency, balance, and failures where there were any."""
    found = view.at(level)
    where = wording.level(view.scenario.load, level)
    tables = [_latency(found, where, folded=folded), _balance(view, found, where, folded=folded)]
    return [table for table in [*tables, _failures(found, where)] if table is not None]


def _p99(summary: Summary | None) -> str:
    if summary is None:
        return wording.ABSENT
    dagger = " †" if summary.failures_part > FAILURES_AT_MOST else ""
    return wording.with_sigma(summary.metrics.get("p99_ms")) + dagger


def _latency(found: Sequence[Summary], where: str, *, folded: bool) -> Table:
    ordered = sorted(found, key=_by_p99)
    head = (
        "algorithm", "kind", "p99 ms", "p50 ms", "p90 ms", "p99.9 ms", "mean ms", "max ms", "throughput 1/s",
        "concurrency", "failed",
    )  # fmt: skip
    lines = [
        Line(
            cells=(
                wording.title(summary.algorithm),
                wording.kind(summary.algorithm),
                wording.with_sigma(summary.metrics.get("p99_ms")),
                *(
                    wording.median(summary.metrics.get(metric))
                    for metric in ("p50_ms", "p90_ms", "p999_ms", "mean_ms", "max_ms", "succeeded_per_s")
                ),
                wording.median(summary.metrics.get("concurrency"), 1),
                wording.percent(summary.failures_part, 2),
            ),
            mark=mark(summary.algorithm),
        )
        for summary in ordered
    ]
    shown, kept = without_empty(head, lines)
    title = f"Latency at {where}"
    return Table(title=title, note=SIGMA, head=shown, lines=kept, words=2, folded=folded)


def _balance(view: View, found: Sequence[Summary], where: str, *, folded: bool) -> Table | None:
    names = [server.name for server in view.scenario.servers] if not view.scenario.static else []
    shown = names if len(names) <= SHARES_OF else []
    head = (
        "algorithm", "kind", *(f"{name} share" for name in shown), "max/mean", "Jain",
        "settles s", "settles after event s", "oscillation", "CPU µs/request",
    )  # fmt: skip
    digits = {
        "max_over_mean_utilization": 2,
        "jain_utilization": 3,
        "settle_s": 1,
        "settle_after_event_s": 1,
        "oscillation": 3,
        "balancer_cpu_us_per_request": 0,
    }
    lines = [
        Line(
            cells=(
                wording.title(summary.algorithm),
                wording.kind(summary.algorithm),
                *(wording.percent(_share(summary, name), 1) for name in shown),
                *(wording.median(summary.metrics.get(metric), places) for metric, places in digits.items()),
            ),
            mark=mark(summary.algorithm),
        )
        for summary in sorted(found, key=_by_p99)
    ]
    columns, kept = without_empty(head, lines)
    if len(columns) <= 2:
        return None
    title = f"Balance and cost at {where}"
    note = "Medians over the repeats, shares of all together; max/mean and Jain are of CPU utilization."
    return Table(title=title, note=note, head=columns, lines=kept, words=2, folded=folded)


def _failures(found: Sequence[Summary], where: str) -> Table | None:
    failed = [summary for summary in found if summary.failures_part > 0]
    if not failed:
        return None
    lines = tuple(
        Line(
            cells=(
                wording.title(summary.algorithm),
                wording.percent(summary.failures_part, 2),
                f"{sum(cell.failures for cell in summary.cells):,}",
                _kinds(summary),
            ),
            mark=mark(summary.algorithm),
        )
        for summary in failed
    )
    head = ("algorithm", "failed", "failures", "by kind")
    return Table(title=f"Failures at {where}", note="Of all repeats together.", head=head, lines=lines)


def _kinds(summary: Summary) -> str:
    kinds: dict[str, int] = {}
    for cell in summary.cells:
        for kind, count in cell.failure_kinds.items():
            kinds[kind] = kinds.get(kind, 0) + count
    ordered = sorted(kinds.items(), key=lambda entry: -entry[1])
    return ", ".join(f"{kind}: {count:,}" for kind, count in ordered) or wording.ABSENT


def _share(summary: Summary, server: str) -> float | None:
    served = [(cell.shares[server], cell.requests) for cell in summary.cells if server in cell.shares]
    requests = sum(count for _, count in served)
    return sum(share * count for share, count in served) / requests if requests else None


def _by_p99(summary: Summary) -> tuple[bool, float]:
    """The order of a level's lines: the best tail first, those that failed requests after the rest."""
    p99_ms = summary.metrics.get("p99_ms")
    return (
        p99_ms is None or summary.failures_part > FAILURES_AT_MOST,
        p99_ms.median if p99_ms else float("inf"),
    )
