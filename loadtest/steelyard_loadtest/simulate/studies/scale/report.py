"""The scale study in words and tables: Markdown and CSV text. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields

from steelyard_controller.pipeline import weight_table

from steelyard_loadtest.simulate.studies.scale import messages
from steelyard_loadtest.simulate.studies.scale.figures import UNITS, Point, TickCpu
from steelyard_loadtest.simulate.studies.scale.grid import (
    DEFAULT_PICKER,
    PLAIN_PICKER,
    REQUESTS_PER_SERVER_S,
)
from steelyard_loadtest.simulate.studies.scale.volume import (
    GIGABIT_BYTES_PER_S,
    Volume,
    most_load_balancers,
    volume,
)
from steelyard_loadtest.simulate.studies.tidy import MEASURE_COLUMNS, csv_text, measured

Grid = Sequence[tuple[int, int]]

CPU_HEAD = ("servers", "load_balancers", "law_ms", "tick_ms")


def volume_of(servers: int, load_balancers: int) -> Volume:
    """Return the bytes per second at a point of the grid, at the study's rate of requests."""
    return volume(servers, load_balancers, REQUESTS_PER_SERVER_S * servers)


def scale_csv(points: Sequence[Point], grid: Grid) -> str:
    """Return what the model says: the same for the same seeds. What is exact has no interval and no seeds."""
    lines: list[tuple[object, ...]] = [
        (
            point.cell.servers,
            point.cell.load_balancers,
            point.cell.picker,
            *measured(name, UNITS[name], found),
        )
        for point in points
        for name, found in point.measures.items()
    ]
    for servers, load_balancers in grid:
        at = volume_of(servers, load_balancers)
        exact = {
            **{each.name: getattr(at, each.name) for each in fields(Volume)},
            "into": at.into,
            "out_of": at.out_of,
        }
        lines += [
            (servers, load_balancers, "", name, "bytes" if name.endswith("_bytes") else "bytes/s",
             float(value), math.nan, None)
            for name, value in exact.items()
        ]  # fmt: skip
    return csv_text(("servers", "load_balancers", "picker", *MEASURE_COLUMNS), lines)


def cpu_csv(cpu: Sequence[TickCpu]) -> str:
    """Return what was measured on this machine: no seed repeats it."""
    return csv_text(
        CPU_HEAD, [(each.servers, each.load_balancers, each.law_ms, each.tick_ms) for each in cpu]
    )


def report(
    points: Sequence[Point], grid: Grid, cpu: Sequence[TickCpu], command: str, plot: str | None
) -> str:
    """Return the tables, and what they say of the limits."""
    ours = [point for point in points if point.cell.picker == DEFAULT_PICKER]
    plain = [point for point in points if point.cell.picker == PLAIN_PICKER]
    ticks = {(each.servers, each.load_balancers): each.tick_ms for each in cpu}
    parts = [
        f"From the model: `{command}`. Means of the seeds ± half of their 95 % interval; columns: load "
        "balancers.",
        *([f"![Six figures against the number of servers]({plot})"] if plot else []),
        _table("Published weights at the wrong server, % of the traffic", ours, _percent("published_error")),
        _table("Traffic that moves each tick, %", ours, _percent("moved")),
        _table(
            "Requests elsewhere than published, %, picker `vnswrr` "
            f"(independent random picks: {_random(plain)})", plain, _percent("achieved_error"),
        ),
        _table("p99, ms, picker `vnswrr2`", ours, _cell("p99_ms", 1.0, 0)),
        _table("p99, ms, picker `vnswrr`: the weights alone", plain, _cell("p99_ms", 1.0, 0)),
        _table("p99 against one load balancer's, picker `vnswrr2`", ours, _cell("p99_ratio", 1.0, 2)),
        _grid_table("Out of Memcached, MB/s", grid, lambda at: f"{volume_of(*at).out_of / 1e6:.3g}"),
        _grid_table(
            "CPU of a controller's tick, ms, measured on this machine", grid,
            lambda at: f"{ticks[at]:,.0f}" if at in ticks else "",
        ),
        limits(ours, grid, cpu),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def limits(points: Sequence[Point], grid: Grid, cpu: Sequence[TickCpu]) -> str:
    """Return where it ends, as a list."""
    most = messages.most_servers_in_a_table()
    size = len(weight_table.to_json(messages.uneven_table(most)))
    sizes = sorted({servers for servers, _ in grid})
    full = ", ".join(
        f"{most_load_balancers(servers, REQUESTS_PER_SERVER_S, GIGABIT_BYTES_PER_S):,} at {servers:,}"
        for servers in sizes
    )
    lines = [
        f"**A table holds {most:,} servers** (names like `server-00001`, IPv4): {size:,} bytes of the 1 MB "
        f"that one Memcached item has. One more and the controller's encoder refuses it.",
        f"**1 Gbit/s out of one Memcached is full** with so many load balancers, by servers: {full}.",
    ]
    law = max(cpu, key=lambda each: (each.servers, -each.load_balancers), default=None)
    costs = tick_costs(cpu)
    if law is not None and costs is not None:
        per_server_us, per_row_us = costs
        rows = max(0.0, (1e6 - per_server_us * law.servers) / per_row_us / law.servers)
        lines.append(
            f"**The controller's tick** costs {per_server_us:.0f} µs a server and {per_row_us:.1f} µs a "
            f"server and load balancer on this machine; at {law.servers:,} servers the law is "
            f"{law.law_ms:.0f} ms of it, and a tick of 1 s is over with {rows:.0f} load balancers."
        )
    changed = [point.measures["rows_changed"].mean for point in points]
    changed_5 = [point.measures["rows_changed_5"].mean for point in points]
    if changed:
        lines.append(
            f"**Rows that change in a tick**: {_span(changed)} of the table; by more than 5 %: "
            f"{_span(changed_5)}."
        )
    return "\n".join(f"- {line}" for line in lines)


def tick_costs(cpu: Sequence[TickCpu]) -> tuple[float, float] | None:
    """Return microseconds of a tick a server, and a server and load balancer, by least squares of the ratios.

    None where not both can be told apart. Relative errors are made small, not absolute ones: else the
    largest points alone would decide.
    """
    # tick = a k + b k n; divided by the measured tick, both sides are ratios.
    rows = [
        (each.servers / each.tick_ms, each.servers * each.load_balancers / each.tick_ms)
        for each in cpu
        if each.tick_ms > 0 and each.servers >= FEWEST_SERVERS
    ]
    aa, ab, bb = (math.fsum(x * y for x, y in pairs) for pairs in _products(rows))
    determinant = aa * bb - ab * ab
    if determinant <= 1e-12 * aa * bb:
        return None
    a, b = math.fsum(x for x, _ in rows), math.fsum(y for _, y in rows)
    return 1000 * (a * bb - b * ab) / determinant, 1000 * (b * aa - a * ab) / determinant


FEWEST_SERVERS = 300
"""Below, what a tick costs whatever its size is most of it."""


def _products(rows: Sequence[tuple[float, float]]) -> tuple[list[tuple[float, float]], ...]:
    return [(x, x) for x, _ in rows], [(x, y) for x, y in rows], [(y, y) for _, y in rows]


def _span(parts: Sequence[float], digits: int = 0) -> str:
    low, high = f"{100 * min(parts):.{digits}f}", f"{100 * max(parts):.{digits}f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _random(points: Sequence[Point]) -> str:
    return _span([point.measures["random_error"].mean for point in points], 1) if points else "unknown"


def _percent(measure: str) -> Callable[[Point], str]:
    return _cell(measure, 100.0, 1)


def _cell(measure: str, scale: float, digits: int) -> Callable[[Point], str]:
    def text(point: Point) -> str:
        found = point.measures.get(measure)
        if found is None or math.isnan(found.mean):
            return ""
        mean = f"{scale * found.mean:,.{digits}f}"
        return mean if math.isnan(found.half_width) else f"{mean} ± {scale * found.half_width:,.{digits}f}"

    return text


def _table(title: str, points: Sequence[Point], text: Callable[[Point], str]) -> str:
    cells = {(point.cell.servers, point.cell.load_balancers): point for point in points}
    return (
        _grid_table(title, sorted(cells), lambda at: text(cells[at]) if at in cells else "") if cells else ""
    )


def _grid_table(title: str, grid: Grid, text: Callable[[tuple[int, int]], str]) -> str:
    columns = sorted({count for _, count in grid})
    lines = [
        f"**{title}**\n",
        "| servers | " + " | ".join(str(count) for count in columns) + " |",
        "|" + "---|" * (len(columns) + 1),
    ]
    for servers in sorted({servers for servers, _ in grid}):
        lines.append(f"| {servers:,} | " + " | ".join(text((servers, count)) for count in columns) + " |")
    return "\n".join(lines)
