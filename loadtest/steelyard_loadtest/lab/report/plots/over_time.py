"""Shares and utilizations of the servers over a cell, an algorithm a column, events marked
(matplotlib, a PNG file).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from steelyard_loadtest.lab.algorithms import BY_NAME
from steelyard_loadtest.lab.records import Measured
from steelyard_loadtest.lab.report import choice, wording
from steelyard_loadtest.lab.report.plots.canvas import canvas
from steelyard_loadtest.lab.report.view import View
from steelyard_loadtest.lab.scenario.model import Event

COLUMNS = 4
SMOOTHED = 3
"""Seconds, the one before and the one after among them: single ones are mostly the noise of few requests."""
HEADROOM = 1.6
"""Of the height of the lines: events are named above them."""
SHADE = "#F6E3D3"
# Okabe and Ito's palette, in an order in which the first two are far apart.
COLORS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
ORDINARY = "#B8B8B8"
DASHES = ("-", "--", "-.", ":")


def draw(file: Path, view: View) -> bool:
    """Draw the first repeat of a few algorithms; False, and no file, when no server was observed."""
    level = choice.main_level(view)
    # An algorithm that was told the weights has nothing to find out, which is what this shows.
    names = [name for name in choice.lines(view) if not BY_NAME[name].told]
    cells = [_first(view, name, level) for name in names] if level is not None else []
    shown = [cell for cell in cells if cell is not None][:COLUMNS]
    if not shown:
        return False
    styles = server_styles(view)
    size = (1.6 + 2.9 * len(shown), 5.4)
    with canvas(file, 2, len(shown), figsize=size, sharex=True, sharey="row") as (figure, grid):
        for column, cell in enumerate(shown):
            shares, used = grid[0][column], grid[1][column]
            shares.set_title(_wrapped(wording.title(cell.cell.algorithm)))
            for axes in (shares, used):
                _events(axes, view.scenario.events)
                axes.set_xlim(0, max(cell.outcome.seconds, 1))
            used.set_xlabel("time (s)")
            _lines(shares, used, cell, styles)
        _name_events(grid[0], view.scenario.events)
        grid[0][0].set_ylabel("share of the requests")
        grid[1][0].set_ylabel("CPU utilization")
        for axes in (grid[0][0], grid[1][0]):
            axes.yaxis.set_major_formatter(PercentFormatter(1))
            axes.set_ylim(bottom=0)
        handles, labels = grid[0][0].get_legend_handles_labels()
        by_label = dict(zip(labels, handles, strict=True))
        figure.legend(by_label.values(), by_label.keys(), loc="outside lower center", ncols=6, fontsize=8.5)
    return True


def server_styles(view: View) -> dict[str, dict[str, Any]]:
    """Give each server a colour; where some differ or have something done to them, only those."""
    servers = [server.name for server in view.scenario.servers]
    coloured = choice.unlike(view.scenario) or servers
    styles: dict[str, dict[str, Any]] = {
        name: {
            "color": COLORS[position % len(COLORS)],
            "linestyle": DASHES[position % len(DASHES)],
            "linewidth": 1.8,
            "label": name,
            "zorder": 3,
        }
        for position, name in enumerate(coloured)
    }
    for name in servers:
        other = {"color": ORDINARY, "linewidth": 1.0, "label": "the other servers", "zorder": 2}
        styles.setdefault(name, other)
    return styles


def _lines(shares: Axes, used: Axes, cell: Measured, styles: dict[str, dict[str, Any]]) -> None:
    for server, style in styles.items():
        own = [entry for entry in cell.observed if entry.server == server]
        times = [entry.t_s for entry in own]
        shares.plot(times, running_mean([entry.share for entry in own]), **style)
        used.plot(times, running_mean([entry.cpu_utilization for entry in own]), **style)


def _events(axes: Axes, events: Sequence[Event]) -> None:
    for event in events:
        if event.do == "burn":
            axes.axvspan(event.at_s, event.at_s + event.for_s, color=SHADE, zorder=0, linewidth=0)
        else:
            axes.axvline(event.at_s, color="#555555", linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)


def _name_events(row: Sequence[Axes], events: Sequence[Event]) -> None:
    if not events:
        return
    # The axes of a row have one scale.
    row[0].set_ylim(0, row[0].get_ylim()[1] * HEADROOM)
    for axes in row:
        for event in events:
            burn = event.do == "burn"
            axes.annotate(
                f"{event.server}'s CPU taken" if burn else f"{event.server} {event.do}s",
                (event.at_s, 1),
                xycoords=("data", "axes fraction"),
                xytext=(3, -4),
                textcoords="offset points",
                rotation=0 if burn else 90,
                va="top",
                fontsize=7,
                color="#444444",
            )


def running_mean(values: Sequence[float | None]) -> list[float]:
    """Return the mean of what is known of each value and its neighbours; not a number where none is."""
    reach = SMOOTHED // 2
    around = [values[max(0, position - reach) : position + reach + 1] for position in range(len(values))]
    known = [[value for value in near if value is not None] for near in around]
    return [sum(near) / len(near) if near else float("nan") for near in known]


def _first(view: View, name: str, level: float) -> Measured | None:
    repeats = view.repeats_of(name, level)
    return next((entry for entry in repeats if entry.observed), None)


def _wrapped(title: str) -> str:
    return title.replace(", ", ",\n", 1)
