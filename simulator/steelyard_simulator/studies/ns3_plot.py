"""Draws the ns-3 study: how latency is spread under each algorithm, and what the slow server got."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from steelyard_loadtest.reporting import plots
from steelyard_loadtest.reporting.plot_style import BLUE, FAINT, INK, ORANGE
from steelyard_loadtest.reporting.plots import Mark, RowName, RowPanel, Rule
from steelyard_loadtest.reporting.statistics import Interval

from steelyard_simulator.studies.measures import Measures
from steelyard_simulator.studies.ns3_study import COLUMNS, PUBLISHED, REQUESTS_PER_SERVER

MARKERS = {"p50_ms": "o", "p90_ms": "s", "p99_ms": "D"}
PREFIX = "steelyard-"
TICKS_MS = (5, 6, 7, 8, 10, 20, 50)


def draw(file: Path, rows: Mapping[str, Measures]) -> None:
    """Draw the rows into a PNG file, the best average on top."""
    drawn = sorted(rows, key=lambda algorithm: rows[algorithm]["avg_ms"].mean)
    latency = RowPanel(
        rows=[_latency(algorithm, rows[algorithm]) for algorithm in drawn],
        title="Latency: least to most; average with its 95 % interval; P50, P90, P99",
        x_label="latency in ms (logarithmic)",
        scale="log",
        finish=_ticks,
    )
    share = RowPanel(
        rows=[
            [_interval(rows[algorithm]["slow_share"], algorithm, scale=100, marker="bar", width=0.8)]
            for algorithm in drawn
        ],
        title="Requests that the slow server got",
        x_label="% of all requests (dashed: an equal share)",
        scale="linear",
        rules=[Rule(at=100 / len(REQUESTS_PER_SERVER), axis="x", color=INK, width=0.8)],
    )
    keys: dict[str, dict[str, Any]] = {
        "average": {"marker": "|", "markersize": 11, "color": INK},
        "average as published": {"marker": "d", "markersize": 8, "markerfacecolor": "none", "color": INK},
        **{
            name.removesuffix("_ms").upper(): {"marker": marker, "markersize": 4, "color": FAINT}
            for name, marker in MARKERS.items()
        },
    }
    plots.draw(
        file,
        [[latency, share]],
        size=(13, 1.6 + 0.3 * len(drawn)),
        names=[RowName(text=name.removeprefix(PREFIX), color=_color(name)) for name in drawn],
        handles=[Line2D([], [], linestyle="none", label=name, **style) for name, style in keys.items()],
        legend="outside lower left",
        legend_columns=len(keys),
        dpi=150,
        settings={"font.size": 9.5, "lines.markeredgewidth": 1.8},
        width_ratios=(1.7, 1),
        sharey=True,
    )


def _latency(algorithm: str, row: Measures) -> list[Mark]:
    least, most, color = row["min_ms"].mean, row["max_ms"].mean, _color(algorithm)
    marks = [Mark(value=least, low=least, high=most, marker="", color="#BBBBBB", width=1.2)]
    for name, marker in MARKERS.items():
        marks.append(Mark(value=row[name].mean, marker=marker, color=color, size=3, alpha=0.55))
    if algorithm in PUBLISHED:
        published = PUBLISHED[algorithm][COLUMNS.index("avg_ms")]
        marks.append(Mark(value=published, marker="d", size=8, hollow=True))
    # The last one is on top.
    return [*marks, _interval(row["avg_ms"], algorithm, marker="|", size=13)]


def _interval(figure: Interval, algorithm: str, *, scale: float = 1, **style: Any) -> Mark:  # noqa: ANN401 - of Mark
    mean = scale * figure.mean
    half = 0.0 if math.isnan(figure.half_width) else scale * figure.half_width
    return Mark(value=mean, low=mean - half, high=mean + half, color=_color(algorithm), **style)


def _ticks(axes: Axes) -> None:
    axes.set_xticks(TICKS_MS, [str(tick) for tick in TICKS_MS])
    axes.minorticks_off()


def _color(algorithm: str) -> str:
    return ORANGE if algorithm.startswith(PREFIX) else BLUE
