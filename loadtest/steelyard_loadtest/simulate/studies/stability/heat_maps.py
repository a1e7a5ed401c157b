"""Draws the stability maps: a column a law, a row a map; the default is white, the edge of stability red."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # a file, never a window
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm
from matplotlib.ticker import FuncFormatter

from steelyard_loadtest.simulate.studies.stability.figures import SETTLED, Maps, Point
from steelyard_loadtest.simulate.studies.stability.grid import (
    DEFAULT_DELAY_TICKS,
    DEFAULT_INTERVAL_S,
    Variant,
)

# Perceptually uniform, and told apart by every kind of colour vision (Nuñez, Anderton, Renslow 2018).
COLORS = "cividis"
# Below half a percent nothing moves that one could see; all of the traffic is the most there is.
LEAST, MOST = 0.005, 1.0
EDGE, MARK = "#E6007A", "#FFFFFF"


def draw(file: Path, maps: Maps, variants: Sequence[Variant]) -> None:
    """Draw the maps into a PNG file."""
    norm = LogNorm(LEAST, MOST, clip=True)
    with mpl.rc_context({"font.size": 9}):
        figure, grid = plt.subplots(
            3, len(variants), figsize=(3.7 * len(variants) + 0.9, 11.2), squeeze=False, layout="constrained"
        )
        drawn: Any = None
        for column, variant in enumerate(variants):
            own = maps.of(variant)
            delay, mismatch, gain = (grid[row][column] for row in range(3))
            drawn = _delay_map(delay, {_at(each, each.cell.delay_ticks): each for each in own.delay}, norm)
            delay.set_ylabel("all messages late (ticks more)")
            delay.set_title(variant.title, fontsize=11, fontweight="bold")
            _delay_map(mismatch, {_at(each, each.cell.mismatch_ticks): each for each in own.mismatch}, norm)
            mismatch.set_ylabel("samples alone late (ticks more)")
            _gain_map(gain, own.gain, variant, norm)
        bar = figure.colorbar(drawn, ax=grid, shrink=0.7, pad=0.01, extend="min")
        bar.set_label("swing of the shares in the last third of the run (amplitude, % of all traffic)")
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
        bar.ax.axhline(SETTLED, color=EDGE, linewidth=2.5)
        bar.ax.set_title("oscillates", fontsize=9, color=EDGE)
        bar.ax.set_xlabel("settled", fontsize=9, color=EDGE, labelpad=16)
        figure.suptitle(
            f"Where the loop settles: beyond the red line over {100 * SETTLED:.0f} % of all traffic swings; "
            "white: as shipped",
            fontsize=13, fontweight="bold", x=0.005, ha="left",
        )  # fmt: skip
        figure.savefig(file, dpi=120)
        plt.close(figure)


def _at(point: Point, late_ticks: int) -> tuple[float, float]:
    return point.cell.load, float(late_ticks)


def _delay_map(axis: Axes, table: Mapping[tuple[float, float], Point], norm: LogNorm) -> Any:  # noqa: ANN401
    columns, rows = _sides(table)
    drawn = _cells(axis, table, columns, rows, norm)
    _ticks(axis, [f"{value:g}" for value in columns], [f"{value:g}" for value in rows])
    axis.set_xlabel("load (part of the capacity)")
    if DEFAULT_DELAY_TICKS in rows:
        axis.axhline(rows.index(DEFAULT_DELAY_TICKS), color=MARK, linestyle="--", linewidth=1.4)
    return drawn


def _gain_map(axis: Axes, points: Sequence[Point], variant: Variant, norm: LogNorm) -> None:
    knob = variant.knob
    table = {
        (each.cell.interval_s, each.cell.load if each.cell.knob is None else each.cell.knob): each
        for each in points
    }
    columns, rows = _sides(table)
    if knob is not None and knob.higher_is_slower:
        rows = rows[::-1]
    _cells(axis, table, columns, rows, norm)
    _ticks(axis, [f"{value:g}" for value in columns], [f"{value:g}" for value in rows])
    axis.set_xlabel("tick T (s)" + (f", at load {variant.gain_load:g}" if knob is not None else ""))
    if knob is None:
        axis.set_ylabel("load (this law has no gain to set)")
        row = variant.gain_load
    else:
        axis.set_ylabel(f"{knob.name} ({knob.unit}): more gain upwards")
        row = knob.default
    if DEFAULT_INTERVAL_S in columns and row in rows:
        axis.plot(
            columns.index(DEFAULT_INTERVAL_S), rows.index(row), marker="*", markersize=15, color=MARK,
            markeredgecolor="black", linestyle="none",
        )  # fmt: skip


def _sides(table: Mapping[tuple[float, float], Point]) -> tuple[list[float], list[float]]:
    return sorted({column for column, _ in table}), sorted({row for _, row in table})


def _cells(
    axis: Axes,
    table: Mapping[tuple[float, float], Point],
    columns: Sequence[float],
    rows: Sequence[float],
    norm: LogNorm,
) -> Any:  # noqa: ANN401 - matplotlib's
    values = np.full((len(rows), len(columns)), np.nan)
    settled = np.zeros(values.shape, dtype=bool)
    for (column, row), point in table.items():
        at = rows.index(row), columns.index(column)
        # Shares that stand quite still have a swing of 0, which no logarithm has.
        values[at] = max(point.swing.mean, LEAST)
        settled[at] = point.settled
    drawn = axis.pcolormesh(
        np.arange(len(columns) + 1) - 0.5, np.arange(len(rows) + 1) - 0.5, values, cmap=COLORS, norm=norm
    )
    axis.add_collection(LineCollection(_edges(settled), colors=EDGE, linewidths=2.5))
    return drawn


def _edges(settled: np.ndarray) -> list[list[tuple[float, float]]]:
    """Return the sides between cells that settle and cells that do not: a contour without interpolation."""
    lines = []
    rows, columns = settled.shape
    for row in range(rows):
        for column in range(columns):
            x, y = column - 0.5, row - 0.5
            if column and settled[row, column] != settled[row, column - 1]:
                lines.append([(x, y), (x, y + 1)])
            if row and settled[row, column] != settled[row - 1, column]:
                lines.append([(x, y), (x + 1, y)])
    return lines


def _ticks(axis: Axes, columns: Sequence[str], rows: Sequence[str]) -> None:
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
    axis.tick_params(axis="x", labelsize=8)
