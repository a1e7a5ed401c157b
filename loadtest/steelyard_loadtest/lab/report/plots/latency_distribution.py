"""The whole latency distribution, the tail drawn out: a decade of percentiles is as wide as the next
(matplotlib, a PNG file).
"""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from steelyard_loadtest.lab.figures.distribution import distribution
from steelyard_loadtest.lab.records import Quantile
from steelyard_loadtest.lab.report import choice, wording
from steelyard_loadtest.lab.report.plots.canvas import canvas, log_scale, spans_decades, stroke
from steelyard_loadtest.lab.report.view import View

TICKS = {"0": 0.0, "50": 0.5, "90": 0.9, "99": 0.99, "99.9": 0.999, "99.99": 0.9999}
LAST = 0.9999


def draw(file: Path, view: View) -> bool:
    """Draw one panel a level; False, and no file, when nothing succeeded."""
    names = choice.lines(view)
    curves = {
        level: {name: points for name in names if len(points := _points(view, name, level)) > 1}
        for level in choice.levels(view.levels)
    }
    levels = [level for level, found in curves.items() if found]
    if not levels:
        return False
    with canvas(file, 1, len(levels), figsize=(max(8.5, 4.2 * len(levels)), 5), sharey=True) as (
        figure,
        grid,
    ):
        for axes, level in zip(grid[0], levels, strict=True):
            _panel(axes, curves[level])
            axes.set_title(f"latency by percentile at {wording.level(view.scenario.load, level)}")
        grid[0][0].set_ylabel("latency (ms)")
        by_label = {
            label: handle
            for axes in grid[0]
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        handles, labels = list(by_label.values()), list(by_label)
        if len(levels) == 1:
            figure.legend(handles, labels, loc="outside right upper", fontsize=8.5)
        else:
            figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8.5)
    return True


def _panel(axes: Axes, curves: dict[str, list[Quantile]]) -> None:
    for name, points in curves.items():
        axes.plot(
            [_nines(point.part) for point in points],
            [point.ms for point in points],
            label=wording.title(name),
            **stroke(name),
        )
    values = [point.ms for points in curves.values() for point in points]
    if spans_decades(values):
        log_scale(axes, "y", values)
    else:
        axes.set_ylim(bottom=0)
    last = max(point.part for points in curves.values() for point in points)
    shown = {label: part for label, part in TICKS.items() if part <= last}
    axes.set_xticks([_nines(part) for part in shown.values()], list(shown))
    axes.set_xlim(left=0)
    axes.set_xlabel("percentile of the requests that succeeded (%)")


def _points(view: View, name: str, level: float) -> list[Quantile]:
    points: Sequence[Quantile] = distribution(view.repeats_of(name, level))
    return [point for point in points if point.part <= LAST and point.ms > 0]


def _nines(part: float) -> float:
    """How many nines a part has: 0.9 is 1, 0.99 is 2."""
    return -math.log10(1 - part)
