"""The scale study in words and tables: Markdown and CSV text. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple

import numpy as np
from steelyard_loadtest.reporting import tables
from steelyard_loadtest.reporting.csv_text import csv_text, rows_text
from steelyard_loadtest.reporting.markdown import bullets, document, image
from steelyard_loadtest.reporting.wording import plus_minus
from steelyard_protocol import weight_table, wire

from steelyard_simulator.studies.measures import MEASURE_COLUMNS, Measures, measure_rows
from steelyard_simulator.studies.scale_grid import (
    DEFAULT_PICKER,
    PLAIN_PICKER,
    REQUESTS_PER_SERVER_S,
    UNITS,
    Place,
    Points,
    TickCpu,
    of_picker,
)
from steelyard_simulator.studies.scale_messages import (
    GIGABIT_BYTES_PER_S,
    most_load_balancers,
    most_servers_in_a_table,
    most_servers_in_an_item,
    uneven_table,
    volume,
)

Grid = Sequence[Place]

CPU_COLUMNS = ("servers", "load_balancers", "law_ms", "tick_ms")

FEWEST_SERVERS = 300
"""Below, what a tick costs whatever its size is most of it."""


def volume_of(servers: int, load_balancers: int) -> dict[str, float]:
    """Return the bytes per second at a point of the grid, at the study's rate of requests."""
    return volume(servers, load_balancers, REQUESTS_PER_SERVER_S * servers)


def scale_csv(points: Points, grid: Grid) -> str:
    """Return what the model says: the same for the same seeds. What is exact has no interval and no seeds."""
    lines: list[tuple[object, ...]] = [
        (*astuple(trial), *row) for trial, measures in points.items() for row in measure_rows(measures, UNITS)
    ]
    for place in grid:
        for name, value in volume_of(*place).items():
            unit = "bytes" if name.endswith("_bytes") else "bytes/s"
            lines.append((*place, "", name, unit, value, None, None))
    return rows_text(("servers", "load_balancers", "picker", *MEASURE_COLUMNS), lines, digits=6)


def cpu_csv(cpu: Sequence[TickCpu]) -> str:
    """Return what was measured on this machine: no seed repeats it."""
    return csv_text(cpu, CPU_COLUMNS, digits=6)


def page(points: Points, grid: Grid, cpu: Sequence[TickCpu], command: str, plot: str | None) -> str:
    """Return the tables, and what they say of the limits."""
    ours, plain = of_picker(points, DEFAULT_PICKER), of_picker(points, PLAIN_PICKER)
    ticks = {(each.servers, each.load_balancers): each.tick_ms for each in cpu}
    random = _span([measures["random_error"].mean for measures in plain.values()], 1) if plain else "unknown"
    measured = (
        ("Published weights at the wrong server, % of the traffic", ours, "published_error", 100, 1),
        ("Traffic that moves each tick, %", ours, "moved", 100, 1),
        (f"Requests elsewhere than published, %, picker `vnswrr` (independent random picks: {random})",
         plain, "achieved_error", 100, 1),
        ("p99, ms, picker `vnswrr2`", ours, "p99_ms", 1, 0),
        ("p99, ms, picker `vnswrr`: the weights alone", plain, "p99_ms", 1, 0),
        ("p99 against one load balancer's, picker `vnswrr2`", ours, "p99_ratio", 1, 2),
    )  # fmt: skip
    return document(
        f"From the model: `{command}`. Means of the seeds ± half of their 95 % interval; columns: load "
        "balancers.",
        image("Six figures against the number of servers", plot),
        *(_measure_table(*each) for each in measured),
        _grid_table("Out of Memcached, MB/s", grid, lambda at: f"{volume_of(*at)['out_of'] / 1e6:.3g}"),
        _grid_table(
            "CPU of a controller's tick, ms, measured on this machine", grid,
            lambda at: f"{ticks[at]:,.0f}" if at in ticks else "",
        ),
        limits(ours, grid, cpu),
    )  # fmt: skip


def limits(points: Mapping[Place, Measures], grid: Grid, cpu: Sequence[TickCpu]) -> str:
    """Return where it ends, as a list."""
    whole = most_servers_in_an_item()
    size = len(weight_table.to_json(uneven_table(whole)))
    sizes = sorted({servers for servers, _ in grid})
    full = ", ".join(
        f"{most_load_balancers(servers, REQUESTS_PER_SERVER_S, GIGABIT_BYTES_PER_S):,} at {servers:,}"
        for servers in sizes
    )
    lines = [
        f"**One Memcached item holds a table of {whole:,} servers** (names like `server-00001`, IPv4): "
        f"{size:,} bytes of 1 MB. A larger table goes in chunks, up to "
        f"{wire.MAX_TABLE_BYTES // wire.MAX_BYTES} MB: some {most_servers_in_a_table():,} servers.",
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
    if points:
        changed = _span([measures["rows_changed"].mean for measures in points.values()])
        much = _span([measures["rows_changed_5"].mean for measures in points.values()])
        lines.append(f"**Rows that change in a tick**: {changed} of the table; by more than 5 %: {much}.")
    return bullets(lines)


def tick_costs(cpu: Sequence[TickCpu]) -> tuple[float, float] | None:
    """Return microseconds of a tick a server, and a server and load balancer, by least squares of the ratios.

    None where not both can be told apart. Relative errors are made small, not absolute ones: else the
    largest points alone would decide.
    """
    # tick = a k + b k n; divided by the measured tick, both sides are ratios.
    ratios = [
        (each.servers / each.tick_ms, each.servers * each.load_balancers / each.tick_ms)
        for each in cpu
        if each.tick_ms > 0 and each.servers >= FEWEST_SERVERS
    ]
    costs, _, rank, _ = np.linalg.lstsq(np.reshape(ratios, (-1, 2)), np.ones(len(ratios)), rcond=1e-6)
    return (1000 * float(costs[0]), 1000 * float(costs[1])) if rank == 2 else None


def _span(parts: Sequence[float], digits: int = 0) -> str:
    low, high = f"{100 * min(parts):.{digits}f}", f"{100 * max(parts):.{digits}f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _measure_table(
    title: str, points: Mapping[Place, Measures], measure: str, scale: float, digits: int
) -> str:
    def text(at: Place) -> str:
        interval = points[at].get(measure) if at in points else None
        if interval is None or math.isnan(interval.mean):
            return ""
        return plus_minus(scale * interval.mean, scale * interval.half_width, digits)

    return _grid_table(title, list(points), text) if points else ""


def _grid_table(title: str, grid: Grid, text: Callable[[Place], str]) -> str:
    rows = tables.pivot(
        "servers",
        sorted({servers for servers, _ in grid}),
        sorted({count for _, count in grid}),
        lambda servers, count: text((servers, count)),
        row_text=lambda servers: f"{servers:,}",
    )
    return f"**{title}**\n\n{tables.markdown(rows)}"
