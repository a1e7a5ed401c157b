"""The scale study in words and tables: template scale_page.md beside this file. Pure but for reading it."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from steelyard_loadtest.reporting.markdown import markdown, pivot
from steelyard_loadtest.reporting.wording import plus_minus
from steelyard_loadtest.templates import render_file
from steelyard_protocol import weight_table, wire

from steelyard_simulator.studies.measures import Measures, Runs, averaged
from steelyard_simulator.studies.scale_grid import DEFAULT_PICKER, PLAIN_PICKER, REQUESTS_PER_SERVER_S, SUBSET
from steelyard_simulator.studies.scale_messages import (
    GIGABIT_BYTES_PER_S,
    most_load_balancers,
    most_servers_in_a_table,
    most_servers_in_an_item,
    out_of_memcached,
    uneven_table,
)

Place = tuple[int, int]
"""Of a point on the grid: servers, load balancers."""

Grid = Sequence[Place]
Points = Mapping[Place, Measures]


def page(runs: Runs, grid: Grid, command: str) -> str:
    """Return the tables, and what they say of the limits."""
    ours, plain = (_of_picker(runs, picker) for picker in (DEFAULT_PICKER, PLAIN_PICKER))
    told = _of_picker(runs, DEFAULT_PICKER, exchanged=True)
    random = _span([measures["random_error"].mean for measures in plain.values()], 1) if plain else "unknown"
    measured = (
        ("Published weights at the wrong server, % of the traffic", ours, "published_error", 100, 1),
        ("Traffic that moves each tick, %", ours, "moved", 100, 1),
        (f"Requests elsewhere than published, %, picker `vnswrr` (independent random picks: {random})",
         plain, "achieved_error", 100, 1),
        ("p99, ms, picker `vnswrr2`", ours, "p99_ms", 1, 0),
        ("p99, ms, picker `vnswrr2`, load balancers share what is in flight, at 2 % of a core each",
         told, "p99_ms", 1, 0),
        (f"p99, ms, picker `vnswrr2`, subsets of {SUBSET}",
         _of_picker(runs, DEFAULT_PICKER, subset=SUBSET), "p99_ms", 1, 0),
        (f"p99, ms, picker `vnswrr2`, subsets of {SUBSET}, and what is in flight is shared",
         _of_picker(runs, DEFAULT_PICKER, exchanged=True, subset=SUBSET), "p99_ms", 1, 0),
        ("p99, ms, picker `vnswrr`: the weights alone", plain, "p99_ms", 1, 0),
    )  # fmt: skip

    def out(at: Place) -> str:
        servers, load_balancers = at
        bytes_per_s = out_of_memcached(servers, load_balancers, REQUESTS_PER_SERVER_S * servers)
        return f"{bytes_per_s / 1e6:.3g}"

    made = [*(_measure_table(*each) for each in measured), _grid_table("Out of Memcached, MB/s", grid, out)]
    whole = most_servers_in_an_item()
    values = {
        "command": command, "tables": [table for table in made if table], "whole": whole,
        "bytes": len(weight_table.to_json(uneven_table(whole))),
        "most_mb": wire.MAX_TABLE_BYTES // wire.MAX_BYTES, "most": most_servers_in_a_table(),
        "full": {
            servers: most_load_balancers(servers, REQUESTS_PER_SERVER_S, GIGABIT_BYTES_PER_S)
            for servers in sorted({servers for servers, _ in grid})
        },
        "changed": [
            _span([measures[name].mean for measures in ours.values()])
            for name in ("rows_changed", "rows_changed_5")
            if ours
        ],
    }  # fmt: skip
    return render_file(Path(__file__).with_name("scale_page.md"), values)


def _of_picker(runs: Runs, picker: str, *, exchanged: bool = False, subset: int = 0) -> Points:
    wanted = (picker, exchanged, subset)
    averages = averaged(
        {each: own for each, own in runs.items() if (each.picker, each.exchanged, each.subset_size) == wanted}
    )
    return {(trial.servers, trial.load_balancers): measures for trial, measures in averages.items()}


def _span(parts: Sequence[float], digits: int = 0) -> str:
    low, high = f"{100 * min(parts):.{digits}f}", f"{100 * max(parts):.{digits}f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _measure_table(title: str, points: Points, measure: str, scale: float, digits: int) -> str:
    def text(at: Place) -> str:
        interval = points[at][measure] if at in points else None
        if interval is None or math.isnan(interval.mean):
            return ""
        return plus_minus(scale * interval.mean, scale * interval.half_width, digits)

    return _grid_table(title, list(points), text) if points else ""


def _grid_table(title: str, grid: Grid, text: Callable[[Place], str]) -> str:
    rows = pivot(
        "servers",
        sorted({servers for servers, _ in grid}),
        sorted({count for _, count in grid}),
        lambda servers, count: text((servers, count)),
        row_text=lambda servers: f"{servers:,}",
    )
    return f"**{title}**\n\n{markdown(rows)}"
