"""The scale study in words and tables: Markdown and CSV text. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple

from steelyard_loadtest.reporting import tables
from steelyard_loadtest.reporting.csv_text import rows_text
from steelyard_loadtest.reporting.markdown import bullets, document
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


def page(points: Points, grid: Grid, command: str) -> str:
    """Return the tables, and what they say of the limits."""
    ours, plain = of_picker(points, DEFAULT_PICKER), of_picker(points, PLAIN_PICKER)
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
        *(_measure_table(*each) for each in measured),
        _grid_table("Out of Memcached, MB/s", grid, lambda at: f"{volume_of(*at)['out_of'] / 1e6:.3g}"),
        limits(ours, grid),
    )


def limits(points: Mapping[Place, Measures], grid: Grid) -> str:
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
    if points:
        changed = _span([measures["rows_changed"].mean for measures in points.values()])
        much = _span([measures["rows_changed_5"].mean for measures in points.values()])
        lines.append(f"**Rows that change in a tick**: {changed} of the table; by more than 5 %: {much}.")
    return bullets(lines)


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
