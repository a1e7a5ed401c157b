"""Draws the study: how latency is spread under each algorithm, and what the slow server got."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # a file, never a window
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from steelyard_loadtest.simulate.ns3.published import COLUMNS, PUBLISHED
from steelyard_loadtest.simulate.ns3.summary import Row

# Okabe and Ito's palette, which the colour-blind can tell apart: ours orange, the others blue, as elsewhere.
OURS, THEIRS, INK = "#D55E00", "#0072B2", "#222222"
MARKERS = {"p50_ms": "o", "p90_ms": "s", "p99_ms": "D"}
PREFIX = "steelyard-"


def plot(file: Path, rows: Sequence[Row]) -> None:
    """Draw the rows into a PNG file, the best average on top."""
    drawn = sorted(rows, key=lambda row: row.avg_ms.mean)
    settings: dict[Any, Any] = {
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "x",
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
    }
    with mpl.rc_context(settings):
        size = (13, 1.6 + 0.3 * len(drawn))
        figure, (latency, share) = plt.subplots(1, 2, figsize=size, width_ratios=(1.7, 1), sharey=True)
        _draw_latency(latency, drawn)
        _draw_share(share, drawn)
        latency.invert_yaxis()
        figure.tight_layout()
        figure.savefig(file, dpi=150)
        plt.close(figure)


def _draw_latency(axis: Axes, rows: Sequence[Row]) -> None:
    places = range(len(rows))
    for place, row in zip(places, rows, strict=True):
        means = dict(zip(COLUMNS, (column.mean for column in row.columns), strict=True))
        ends = [means["min_ms"], means["max_ms"]]
        axis.plot(ends, [place, place], color="#BBBBBB", linewidth=1.2, zorder=1)
        color = _color(row)
        for name, marker in MARKERS.items():
            axis.plot(means[name], place, marker=marker, color=color, markersize=4, alpha=0.55, zorder=2)
        axis.errorbar(
            means["avg_ms"], place, xerr=_half(row.avg_ms.half_width), marker="|", markersize=13,
            markeredgewidth=2.5, color=color, capsize=3, elinewidth=1, zorder=3,
        )  # fmt: skip
        if row.algorithm in PUBLISHED:
            published = dict(zip(COLUMNS, PUBLISHED[row.algorithm], strict=True))
            axis.plot(
                published["avg_ms"], place, marker="d", markersize=8, markerfacecolor="none",
                markeredgecolor=INK, linestyle="none", zorder=4,
            )  # fmt: skip
    axis.set_yticks(list(places), [row.algorithm.removeprefix(PREFIX) for row in rows])
    for label, row in zip(axis.get_yticklabels(), rows, strict=True):
        label.set_color(_color(row))
    axis.set_xscale("log")
    axis.set_xticks([5, 6, 7, 8, 10, 20, 50], ["5", "6", "7", "8", "10", "20", "50"])
    axis.minorticks_off()
    axis.set_xlabel("latency in ms (logarithmic)")
    title = "Latency: least to most; average with its 95 % interval; P50, P90, P99"
    axis.set_title(title, loc="left", fontsize=10.5)
    keys: dict[str, dict[str, Any]] = {
        "average": {"marker": "|", "markersize": 11, "markeredgewidth": 2.5, "color": INK},
        "average as published": {"marker": "d", "markersize": 8, "markerfacecolor": "none", "color": INK},
    }
    for name, marker in MARKERS.items():
        keys[name.removesuffix("_ms").upper()] = {"marker": marker, "markersize": 4, "color": "#777777"}
    for name, style in keys.items():
        axis.plot([], [], linestyle="none", label=name, **style)
    axis.legend(frameon=False, fontsize=8.5, ncols=5, loc="upper left", bbox_to_anchor=(0, -0.07))


def _draw_share(axis: Axes, rows: Sequence[Row]) -> None:
    shares = [100 * row.slow_share.mean for row in rows]
    errors = [100 * _half(row.slow_share.half_width) for row in rows]
    axis.barh(
        range(len(rows)), shares, xerr=errors, color=[_color(row) for row in rows],
        height=0.65, error_kw={"elinewidth": 0.8, "capsize": 2, "ecolor": INK},
    )  # fmt: skip
    equal = 100 / len(rows[0].requests_per_server)
    axis.axvline(equal, color=INK, linewidth=0.8, linestyle="--")
    axis.set_xlabel("% of all requests (dashed: an equal share)")
    axis.set_title("Requests that the slow server got", loc="left", fontsize=10.5)


def _color(row: Row) -> str:
    return OURS if row.algorithm.startswith(PREFIX) else THEIRS


def _half(half_width: float) -> float:
    return 0.0 if math.isnan(half_width) else half_width
