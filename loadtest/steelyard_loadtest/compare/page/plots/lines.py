"""A line an algorithm: figures over the load, as the paper, the study and vproxy drew them (PNG files)."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.view import MOST_PANELS, View, shown_algorithms
from steelyard_loadtest.reporting.plot_style import spans_decades
from steelyard_loadtest.reporting.plots import Panel, Series, draw


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


def _series(view: View, metric: str, name: str) -> Series:
    spreads = [view.spread(name, level, metric) for level in view.levels]
    sigmas = [(spread.sigma if spread else None) or 0.0 for spread in spreads]
    return Series(
        x=view.levels,
        y=[spread.mean if spread else None for spread in spreads],
        below=sigmas,
        above=sigmas,
        label=scenario_text.title(name),
        style=scenario_text.LOOKS[name].line,
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
