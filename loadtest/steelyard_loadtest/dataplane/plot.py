"""Draws the figures: CPU per request against the number of servers, and the ratios to nginx's SWRR."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # a file, never a window
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from steelyard_loadtest.dataplane.contenders import BASE, BY_NAME
from steelyard_loadtest.dataplane.summary import Row

# Okabe and Ito's palette, which the colour-blind can tell apart: one colour a program.
COLORS = {"steelyard": "#D55E00", "nginx": "#0072B2", "haproxy": "#009E73", "envoy": "#CC79A7"}
DASHES = ("-", "--", "-.", ":", (0, (1, 1)))
MARKERS = "osD^v"

Style = dict[str, Any]


def plot(file: Path, rows: Sequence[Row]) -> None:
    """Draw the rows that have a CPU figure into a PNG file; at least one has."""
    drawn = [row for row in rows if row.cpu_us]
    styles = line_styles([row.contender for row in drawn])
    settings: dict[Any, Any] = {
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
    }
    with mpl.rc_context(settings):
        figure, (cost, ratio) = plt.subplots(1, 2, figsize=(13, 5.5), width_ratios=(1.15, 1))
        _draw_cost(cost, drawn, styles)
        _draw_ratios(ratio, drawn)
        figure.tight_layout()
        figure.savefig(file, dpi=150)
        plt.close(figure)


def line_styles(names: Sequence[str]) -> dict[str, Style]:
    """Give each contender its program's colour, and a dash and a marker of its own in that colour."""
    styles: dict[str, Style] = {}
    used: dict[str, int] = {}
    for name in dict.fromkeys(names):
        program = BY_NAME[name].program
        position = used.get(program, 0)
        used[program] = position + 1
        styles[name] = {
            "color": COLORS[program],
            "linestyle": DASHES[position % len(DASHES)],
            "marker": MARKERS[position % len(MARKERS)],
            "linewidth": 2.0 if program == "steelyard" else 1.4,
            "markersize": 4.5,
        }
    return styles


def _draw_cost(axis: Axes, rows: Sequence[Row], styles: dict[str, Style]) -> None:
    for name, style in styles.items():
        own = [row for row in rows if row.contender == name]
        costs = [row.cpu_us for row in own if row.cpu_us]
        middles = [cost.median for cost in costs]
        whiskers = [
            [cost.median - cost.lowest for cost in costs],
            [cost.highest - cost.median for cost in costs],
        ]
        axis.errorbar(
            [row.peers for row in own],
            middles,
            yerr=whiskers,
            capsize=2,
            elinewidth=0.7,
            label=BY_NAME[name].title,
            **style,
        )
    counts = sorted({row.peers for row in rows})
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(counts))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_ylim(bottom=0)
    axis.set_xlabel("servers")
    axis.set_title("CPU µs per request of the proxy (median, lowest, highest)", loc="left", fontsize=10.5)
    axis.legend(frameon=False, fontsize=8, ncols=2)


def _draw_ratios(axis: Axes, rows: Sequence[Row]) -> None:
    most = max(row.peers for row in rows)
    bars = [row for row in rows if row.peers == most and row.ratio is not None]
    if not bars:
        axis.text(0.5, 0.5, "nginx SWRR was not measured", transform=axis.transAxes, ha="center")
        return
    titles = [BY_NAME[row.contender].title for row in bars]
    values = [row.ratio or 0.0 for row in bars]
    drawn = axis.barh(titles, values, color=[COLORS[BY_NAME[row.contender].program] for row in bars])
    axis.bar_label(drawn, fmt="%.2f", padding=3, fontsize=8.5)
    axis.axvline(1, color="#222222", linewidth=0.8)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    title = f"CPU per request at {most:,} servers, times {BY_NAME[BASE].title}'s"
    axis.set_title(title, loc="left", fontsize=10.5)
