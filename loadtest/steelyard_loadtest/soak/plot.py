"""Draws the soak: small multiples over one time, what a line may grow as a bar (matplotlib, a PNG file)."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from steelyard_loadtest.lab.report.plots.canvas import canvas
from steelyard_loadtest.soak.panels import Panel, panels
from steelyard_loadtest.soak.records import Soaked
from steelyard_loadtest.soak.wording import clock

SHADE = "#EEEEEE"
RELOAD = "#777777"
BAR = "#444444"
HEIGHT_IN_BOUNDS = 6.0
"""A panel is at least so many times as high as a line may rise: noise is not to look like a leak."""
BAR_AT = 0.985
"""Of the width."""


def plot(file: Path, soaked: Soaked) -> None:
    """Draw the run into a PNG file, as far as it went."""
    rows = panels(soaked)
    end_s = max((one.at_s for one in soaked.overviews), default=1.0)
    with canvas(file, len(rows), len(rows[0]), figsize=(13, 7.6), sharex=True) as (figure, grid):
        for row, axes_row in zip(rows, grid, strict=True):
            for panel, axes in zip(row, axes_row, strict=True):
                _panel(axes, panel)
                axes.set_xlim(0, end_s)
                axes.axvspan(0, min(panel.warm_up_s, end_s), color=SHADE, zorder=0, linewidth=0)
                for at_s in soaked.reloads:
                    axes.axvline(at_s, color=RELOAD, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
        for axes in grid[-1]:
            axes.set_xlabel("time (minutes)")
            axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 1.2, 2, 3, 6, 10]))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: clock(value)))
        marks = [
            Line2D([], [], color=SHADE, linewidth=8, label="warm-up, not judged"),
            Line2D([], [], color=RELOAD, linewidth=0.8, linestyle=(0, (2, 2)), label="reload: new workers"),
            Line2D([], [], color=BAR, linewidth=2.5, label="may grow by so much"),
        ]
        figure.legend(handles=marks, loc="outside lower center", ncols=3, fontsize=8.5)


def _panel(axes: Axes, panel: Panel) -> None:
    for line in panel.lines:
        axes.plot(
            line.times_s, line.values, color=line.color, linewidth=1.2, label=line.label or None, zorder=3
        )
    axes.set_title(panel.title)
    values = [value for line in panel.lines for value in line.values]
    if not values:
        axes.text(0.5, 0.5, "not to be read here", transform=axes.transAxes, ha="center", color="#777777")
        return
    low, high = min(values), max(values)
    if panel.may_grow:
        middle, height = (low + high) / 2, max((high - low) * 1.3, panel.may_grow * HEIGHT_IN_BOUNDS)
        bottom = max(0.0, middle - height / 2)
        axes.set_ylim(bottom, bottom + height)
        _bar(axes, bottom + height * 0.04, panel.may_grow)
    else:
        axes.set_ylim(0, max(high * 1.25, 1))
    if any(line.label for line in panel.lines):
        axes.legend(fontsize=8, loc="upper left", ncols=2)


def _bar(axes: Axes, low: float, length: float) -> None:
    # x as a part of the width, y in the panel's own unit.
    axes.plot(
        [BAR_AT, BAR_AT],
        [low, low + length],
        color=BAR,
        linewidth=2.5,
        solid_capstyle="butt",
        transform=axes.get_yaxis_transform(),
        zorder=4,
    )
