"""A line an algorithm: figures over the load (the paper's figures 2 to 4, the study's 7 to 11, vproxy's), and
latency over the percentile, the tail drawn out: a decade of percentiles is as wide as the next (PNG files).
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.palette import LOOKS
from steelyard_loadtest.compare.page.view import MOST_PANELS, View, shown_algorithms, shown_levels
from steelyard_loadtest.figures.trial_figures import distribution
from steelyard_loadtest.measurements.percentiles import Quantile
from steelyard_loadtest.reporting.plot_style import spans_decades
from steelyard_loadtest.reporting.plots import Panel, Series, draw

TICKS = {"0": 0.0, "50": 0.5, "90": 0.9, "99": 0.99, "99.9": 0.999, "99.99": 0.9999}
LAST = 0.9999

Curves = Mapping[str, Sequence[Quantile]]


def draw_over_load(file: Path, view: View) -> bool:
    """Draw the panels of the scenario's generator; False, and no file, with fewer than two levels."""
    if len(view.levels) < 2:
        return False
    names = shown_algorithms(view)
    panels = [
        Panel(
            series=[_series(view, metric, name) for name in names],
            title=title,
            x_label=scenario_text.level_unit(view.scenario.load),
            y_scale="auto",
            empty="",
            finish=partial(_levels, view),
        )
        for metric, title in scenario_text.layout_of(view.scenario.load)["panels"].items()
    ]
    size = (4.1 * len(panels), 4.6)
    draw(file, [panels], size=size, legend="outside lower center", legend_columns=3)
    return True


def draw_distribution(file: Path, view: View) -> bool:
    """Draw one panel a level; False, and no file, when nothing succeeded."""
    names = shown_algorithms(view)
    curves = {
        level: {name: points for name in names if len(points := _points(view, name, level)) > 1}
        for level in shown_levels(view.levels)
    }
    panels = [_panel(view, level, lines) for level, lines in curves.items() if lines]
    if not panels:
        return False
    size = (max(8.5, 4.2 * len(panels)), 5.0)
    if len(panels) == 1:
        draw(file, [panels], size=size, legend="outside right upper", legend_columns=1)
    else:
        draw(file, [panels], size=size, sharey=True, legend="outside lower center")
    return True


def _series(view: View, metric: str, name: str) -> Series:
    spreads = [view.spread(name, level, metric) for level in view.levels]
    sigmas = [(spread.sigma if spread else None) or 0.0 for spread in spreads]
    return Series(
        x=view.levels,
        y=[spread.mean if spread else None for spread in spreads],
        below=sigmas,
        above=sigmas,
        label=scenario_text.title(name),
        style=LOOKS[name].line | LOOKS[name].dots,
    )


def _levels(view: View, axes: Axes) -> None:
    levels: Sequence[float] = view.levels
    if spans_decades(levels) and len(levels) <= MOST_PANELS:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    # Ten labels in a small panel touch: then every second one, and the highest.
    step = 1 if len(levels) <= 5 else 2
    load = view.scenario.load
    axes.xaxis.set_major_locator(FixedLocator(levels[::-step]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: scenario_text.level_number(load, value)))


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
