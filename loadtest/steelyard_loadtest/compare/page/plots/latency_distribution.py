"""The whole latency distribution, the tail drawn out: a decade of percentiles is as wide as the next
(PNG files).
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.palette import LOOKS
from steelyard_loadtest.compare.page.view import View, shown_algorithms, shown_levels
from steelyard_loadtest.figures.trial_figures import distribution
from steelyard_loadtest.measurements.trials import Quantile
from steelyard_loadtest.reporting.plots import Panel, Series, draw

TICKS = {"0": 0.0, "50": 0.5, "90": 0.9, "99": 0.99, "99.9": 0.999, "99.99": 0.9999}
LAST = 0.9999

Curves = Mapping[str, Sequence[Quantile]]


def draw_distribution(file: Path, view: View) -> bool:
    """Draw one panel a level; False, and no file, when nothing succeeded."""
    names = shown_algorithms(view)
    curves = {
        level: {name: points for name in names if len(points := _points(view, name, level)) > 1}
        for level in shown_levels(view.levels)
    }
    panels = [_panel(view, level, found) for level, found in curves.items() if found]
    if not panels:
        return False
    size = (max(8.5, 4.2 * len(panels)), 5.0)
    if len(panels) == 1:
        draw(file, [panels], size=size, legend="outside right upper", legend_columns=1)
    else:
        draw(file, [panels], size=size, sharey=True, legend="outside lower center")
    return True


def _panel(view: View, level: float, curves: Curves) -> Panel:
    return Panel(
        series=[
            Series(
                x=[_nines(point.part) for point in points],
                y=[point.ms for point in points],
                label=scenario_text.title(name),
                style=LOOKS[name].line,
            )
            for name, points in curves.items()
        ],
        title=f"latency by percentile at {scenario_text.level(view.scenario.load, level)}",
        x_label="percentile of the requests that succeeded (%)",
        y_label="latency (ms)",
        y_scale="auto",
        x_limits=(0, None),
        finish=partial(_ticks, curves),
    )


def _ticks(curves: Curves, axes: Axes) -> None:
    last = max(point.part for points in curves.values() for point in points)
    shown = {label: part for label, part in TICKS.items() if part <= last}
    axes.set_xticks([_nines(part) for part in shown.values()], list(shown))
    axes.label_outer(remove_inner_ticks=False)


def _points(view: View, name: str, level: float) -> list[Quantile]:
    points = distribution(view.repeats_of(name, level))
    return [point for point in points if point.part <= LAST and point.ms > 0]


def _nines(part: float) -> float:
    """How many nines a part has: 0.9 is 1, 0.99 is 2."""
    return -math.log10(1 - part)
