"""Draws the stability maps: a column a law, a row a map; the default is white, the edge of stability red."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm
from matplotlib.ticker import FuncFormatter
from steelyard_loadtest.reporting.plot_style import canvas, headline

from steelyard_simulator.studies.measures import Measures, Runs, averaged
from steelyard_simulator.studies.stability_grid import (
    DEFAULT_DELAY_TICKS,
    DEFAULT_INTERVAL_S,
    VARIANTS,
    Maps,
    Variant,
)
from steelyard_simulator.studies.stability_page import SETTLED, settled

Table = Mapping[tuple[float, float], Measures]
"""The measures by column and row of a map."""

# Perceptually uniform, and told apart by every kind of colour vision (Nuñez, Anderton, Renslow 2018).
COLORS = "cividis"
# Below half a percent nothing moves that one could see; all of the traffic is the most there is.
LEAST, MOST = 0.005, 1.0
EDGE, MARK = "#E6007A", "#FFFFFF"
# Maps have a frame and no grid.
BOXED = {
    "axes.grid": False,
    "axes.spines.top": True,
    "axes.spines.right": True,
    "axes.edgecolor": "black",
    "axes.titlelocation": "center",
}


def draw(file: Path, maps: Maps, runs: Runs, variants: Sequence[Variant] = VARIANTS) -> None:
    """Draw the maps into a PNG file."""
    points = averaged(runs)
    norm = LogNorm(LEAST, MOST, clip=True)
    drawn: Any = None
    size = (3.7 * len(variants) + 0.9, 11.2)

    def table(name: str, variant: Variant, x: str, y: str) -> Table:
        own = [trial for trial in maps[name] if trial.variant == variant.name]
        return {(getattr(trial, x), getattr(trial, y)): points[trial] for trial in own}

    with canvas(file, 3, len(variants), settings=BOXED, all_colors=True, figsize=size) as (figure, grid):
        for column, variant in enumerate(variants):
            delay, mismatch, gain = (grid[row][column] for row in range(3))
            drawn = _delay_map(delay, table("load-delay", variant, "load", "delay_ticks"), norm)
            delay.set_ylabel("all messages late (ticks more)")
            delay.set_title(variant.title, fontsize=11, fontweight="bold")
            _delay_map(mismatch, table("load-mismatch", variant, "load", "mismatch_ticks"), norm)
            mismatch.set_ylabel("samples alone late (ticks more)")
            y = "load" if variant.knob is None else "knob"
            _gain_map(gain, table("gain-interval", variant, "interval_s", y), variant, norm)
        bar = figure.colorbar(drawn, ax=figure.axes, shrink=0.7, pad=0.01, extend="min")
        bar.set_label("swing of the shares in the last third of the run (amplitude, % of all traffic)")
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
        bar.ax.axhline(SETTLED, color=EDGE, linewidth=2.5)
        bar.ax.set_title("oscillates", fontsize=9, color=EDGE)
        bar.ax.set_xlabel("settled", fontsize=9, color=EDGE, labelpad=16)
        headline(
            figure,
            f"Where the loop settles: beyond the red line over {100 * SETTLED:.0f} % of all traffic swings; "
            "white: as shipped",
        )


def _delay_map(axis: Axes, table: Table, norm: LogNorm) -> Any:  # noqa: ANN401 - matplotlib's
    drawn, _, rows = _squares(axis, table, norm)
    axis.set_xlabel("load (part of the capacity)")
    axis.axhline(rows.index(DEFAULT_DELAY_TICKS), color=MARK, linestyle="--", linewidth=1.4)
    return drawn


def _gain_map(axis: Axes, table: Table, variant: Variant, norm: LogNorm) -> None:
    knob = variant.knob
    _, columns, rows = _squares(axis, table, norm, downwards=knob is not None and knob.higher_is_slower)
    axis.set_xlabel("tick T (s)" + (f", at load {variant.gain_load:g}" if knob is not None else ""))
    if knob is None:
        axis.set_ylabel("load (this law has no gain to set)")
    else:
        axis.set_ylabel(f"{knob.name} ({knob.unit}): more gain upwards")
    axis.plot(
        columns.index(DEFAULT_INTERVAL_S), rows.index(variant.gain_load if knob is None else knob.default),
        marker="*", markersize=15, color=MARK, markeredgecolor="black", linestyle="none",
    )  # fmt: skip


def _squares(
    axis: Axes, table: Table, norm: LogNorm, *, downwards: bool = False
) -> tuple[Any, list[float], list[float]]:
    """Draw a square for each trial; return them, and the values of the columns and of the rows from below."""
    columns = sorted({column for column, _ in table})
    rows = sorted({row for _, row in table}, reverse=downwards)
    # Shares that stand quite still have a swing of 0, which no logarithm has.
    values = np.array([[max(table[x, y]["swing"].mean, LEAST) for x in columns] for y in rows])
    at_rest = np.array([[settled(table[x, y]) for x in columns] for y in rows])
    drawn = axis.pcolormesh(
        np.arange(len(columns) + 1) - 0.5, np.arange(len(rows) + 1) - 0.5, values, cmap=COLORS, norm=norm
    )
    axis.add_collection(LineCollection(_edges(at_rest), colors=EDGE, linewidths=2.5))
    axis.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
    axis.set_yticks(range(len(rows)), [f"{value:g}" for value in rows])
    axis.tick_params(axis="x", labelsize=8)
    return drawn, columns, rows


def _edges(at_rest: np.ndarray) -> list[list[tuple[float, float]]]:
    """Return the sides between squares that settle and those that do not: a contour without interpolation."""
    beside = np.argwhere(at_rest[:, 1:] != at_rest[:, :-1])
    above = np.argwhere(at_rest[1:] != at_rest[:-1])
    return [
        *([(x + 0.5, y - 0.5), (x + 0.5, y + 0.5)] for y, x in beside),
        *([(x - 0.5, y + 0.5), (x + 0.5, y + 0.5)] for y, x in above),
    ]
