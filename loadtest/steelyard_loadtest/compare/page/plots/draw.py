"""Which plots a scenario gets, and what is said of each (I/O: PNG files)."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.plots.lines import draw_over_load
from steelyard_loadtest.compare.page.plots.over_time import COLUMNS, SMOOTHED, draw_over_time, shows_fair
from steelyard_loadtest.compare.page.plots.p99 import draw_p99
from steelyard_loadtest.compare.page.view import View, main_level, shown_algorithms
from steelyard_loadtest.reporting.markdown import image
from steelyard_loadtest.reporting.tables import plain
from steelyard_loadtest.reporting.wording import sentence

FOLDER = "plots"

LOOK = "Ours are orange, the default is the strongest; grey and hollow are told the servers' weights."

Draw = Callable[[Path, View], bool]
"""Draws a view into a file; False, and no file, when there is nothing to draw."""


class Figure(NamedTuple):
    """A plot: its path from the page's folder, and what it shows."""

    path: str
    alt: str
    caption: str

    @property
    def markdown(self) -> str:
        """Return it with its caption."""
        return f"{image(plain(self.alt), self.path)}\n\n*{plain(self.caption)}*"


def draw_scenario(out: Path, view: View) -> list[Figure]:
    """Draw what there is to draw of a scenario."""
    figures = _wanted(view)
    return [figure for draw, figure in figures.items() if draw(out / figure.path, view)]


def _wanted(view: View) -> dict[Draw, Figure]:
    """The plots that a scenario has where enough was measured, by what draws them."""
    name, load, level = view.scenario.name, view.scenario.load, main_level(view)
    shown, known = len(shown_algorithms(view)), len(view.algorithms)
    some = f" {shown} of {known} algorithms; the others are in the tables." if shown < known else ""
    panels = sentence(list(scenario_text.layout_of(load)["panels"].values()))
    at = scenario_text.level(load, level) if level is not None else ""
    fair = " Dotted: a server's part of all servers' CPU at that moment." if shows_fair(view) else ""
    by_role: dict[Draw, tuple[str, str, str]] = {
        draw_p99: (
            "p99",
            "p99 latency of each algorithm",
            "Dots are medians, bars reach from the lowest to the highest repeat, ± is σ; † means failures."
            f" The best is at the top; the line is Steelyard's default. {LOOK}",
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
            f"The first repeat at {at}, a running mean of {SMOOTHED} seconds, of up to {COLUMNS} algorithms"
            f" that were told nothing: the default, the best online peers, and the commonest.{fair}",
        )
    return {
        draw: Figure(path=f"{FOLDER}/{name}-{role}.png", alt=f"{name}: {alt}", caption=caption)
        for draw, (role, alt, caption) in by_role.items()
    }
