"""Which plots a scenario gets, and what is said of each (I/O: PNG files)."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.plots.lines import draw_distribution, draw_over_load
from steelyard_loadtest.compare.page.plots.over_time import COLUMNS, SMOOTHED, draw_over_time, shows_fair
from steelyard_loadtest.compare.page.plots.p99 import draw_p99, draw_targets
from steelyard_loadtest.compare.page.view import View, main_level, shown_algorithms
from steelyard_loadtest.reporting.markdown import image
from steelyard_loadtest.reporting.tables import plain
from steelyard_loadtest.reporting.wording import sentence

FOLDER = "plots"
VERDICT = "target.png"

LOOK = "Ours are orange, the default is the strongest; grey and hollow are told the servers' weights."


class Figure(NamedTuple):
    """A plot: its path from the page's folder, and what it shows."""

    path: str
    alt: str
    caption: str

    @property
    def markdown(self) -> str:
        """Return it with its caption."""
        return f"{image(plain(self.alt), self.path)}\n\n*{plain(self.caption)}*"


def draw_verdict(out: Path, views: Sequence[View]) -> Figure | None:
    """Draw the headline; None when there is nothing to draw."""
    if not draw_targets(out / FOLDER / VERDICT, views):
        return None
    return Figure(path=f"{FOLDER}/{VERDICT}", **scenario_text.LAYOUT["plots"]["verdict"])


def draw_scenario(out: Path, view: View) -> list[Figure]:
    """Draw what there is to draw of a scenario."""
    load = view.scenario.load
    wanted = {"p99": draw_p99, "load": draw_over_load}
    if load.generator == "open":
        wanted["distribution"] = draw_distribution
    if load.generator == "open" or view.scenario.events:
        wanted["time"] = draw_over_time
    known = _known(view)
    return [
        Figure(
            path=path,
            **{name: text.format(**known) for name, text in scenario_text.LAYOUT["plots"][role].items()},
        )
        for role, draw in wanted.items()
        if draw(out / (path := f"{FOLDER}/{view.scenario.name}-{role}.png"), view)
    ]


def _known(view: View) -> dict[str, object]:
    """What the plots' texts may name."""
    load, level = view.scenario.load, main_level(view)
    shown, known = len(shown_algorithms(view)), len(view.algorithms)
    return {
        "scenario": view.scenario.name,
        "look": LOOK,
        "some": f" {shown} of {known} algorithms; the others are in the tables." if shown < known else "",
        "at": scenario_text.level(load, level) if level is not None else "",
        "panels": sentence(list(scenario_text.GENERATORS[load.generator]["panels"].values())),
        "unit": scenario_text.level_unit(load),
        "smoothed": SMOOTHED,
        "columns": COLUMNS,
        "fair": " Dotted: a server's part of all servers' CPU at that moment." if shows_fair(view) else "",
    }
