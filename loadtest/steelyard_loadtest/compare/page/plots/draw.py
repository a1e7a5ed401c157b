"""The plots of a scenario, and their captions (I/O: PNG files)."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.plots.over_time import COLUMNS, SMOOTHED, draw_over_time, shows_fair
from steelyard_loadtest.compare.page.plots.p99 import draw_p99
from steelyard_loadtest.compare.page.plots.servers_needed import draw_servers_needed
from steelyard_loadtest.compare.page.view import MOST_PANELS, View, main_level, shown_algorithms
from steelyard_loadtest.reporting.markdown import image, plain
from steelyard_loadtest.reporting.plot_style import spans_decades
from steelyard_loadtest.reporting.plots import Panel, Series, draw
from steelyard_loadtest.reporting.wording import sentence

FOLDER = "plots"

LOOK = (
    "Steelyard is orange, its default the strongest;"
    " algorithms that were given the weights are grey and hollow."
)

Draw = Callable[[Path, View], bool]
"""Draws a view into a file; False, and no file, when there is nothing to draw."""


class Figure(NamedTuple):
    """A plot: its path from the page's folder, its text and its caption."""

    path: str
    alt: str
    caption: str

    @property
    def markdown(self) -> str:
        """Return it with its caption."""
        return f"{image(plain(self.alt), self.path)}\n\n*{plain(self.caption)}*"


def draw_scenario(out: Path, view: View) -> list[Figure]:
    """Draw the plots of a scenario."""
    figures = _wanted(view)
    return [figure for drawn, figure in figures.items() if drawn(out / figure.path, view)]


def _wanted(view: View) -> dict[Draw, Figure]:
    """Return the plots of a scenario with enough measurements, by the function that draws them."""
    name, load, level = view.scenario.name, view.scenario.load, main_level(view)
    shown, known = len(shown_algorithms(view)), len(view.algorithms)
    some = f" {shown} of {known} algorithms; the others are in the tables." if shown < known else ""
    panels = sentence(list(scenario_text.layout_of(load)["panels"].values()))
    at = scenario_text.level(load, level) if level is not None else ""
    fair = " Dotted: a server's part of all servers' CPU at that moment." if shows_fair(view) else ""
    by_role: dict[Draw, tuple[str, str, str]] = {}
    if view.scenario.fleet:
        by_role[draw_servers_needed] = (
            "servers",
            "p99 over the load, and the servers that each algorithm needs for one load at one p99",
            "Left: medians over the repeats; dashed is the bound, the same for all. Right: the number of"
            " servers of the same mixture, from the load at which each line crosses the bound.",
        )
    by_role |= {
        draw_p99: (
            "p99",
            "p99 latency of each algorithm",
            "Dots are medians, bars reach from the lowest to the highest repeat, ± is σ; † is the part that"
            f" failed. The best is at the top; the line is Steelyard's default. {LOOK}",
        ),
        draw_over_load: (
            "load",
            f"{panels} over {scenario_text.level_unit(load)}",
            f"Means over the repeats, bars are σ.{some} {LOOK}",
        ),
    }
    if load.generator == "open" or view.scenario.events:
        by_role[draw_over_time] = (
            "time",
            "share and CPU utilization of each server, and p99, over time",
            f"The first repeat at {at}: shares and CPU as a running mean of {SMOOTHED} seconds, p99 of each"
            " second. CPU utilization is the part of the server's limit, a neighbour's work included."
            f" There are up to {COLUMNS} algorithms without information about the servers: the default,"
            f" the best online peers, and the commonest.{fair}",
        )
    return {
        drawn: Figure(path=f"{FOLDER}/{name}-{role}.png", alt=f"{name}: {alt}", caption=caption)
        for drawn, (role, alt, caption) in by_role.items()
    }


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
    levels = view.levels
    if spans_decades(levels) and len(levels) <= MOST_PANELS:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    # Ten labels in a small panel touch: then every second one, and the highest.
    step = 1 if len(levels) <= 5 else 2
    load = view.scenario.load
    axes.xaxis.set_major_locator(FixedLocator(levels[::-step]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: scenario_text.level_number(load, value)))
