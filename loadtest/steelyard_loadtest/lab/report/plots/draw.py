"""Which plots a scenario gets, and what is said of each (I/O: PNG files)."""

from collections.abc import Callable, Sequence
from pathlib import Path

from steelyard_loadtest.lab.report import choice, wording
from steelyard_loadtest.lab.report.document import Figure, Role
from steelyard_loadtest.lab.report.plots import latency_distribution, over_load, over_time, p99, ratios
from steelyard_loadtest.lab.report.view import View

FOLDER = "plots"
VERDICT = "target.png"

LOOK = "Ours are orange, the default is the strongest; grey and hollow are told the servers' weights."


def draw_verdict(out: Path, views: Sequence[View]) -> Figure | None:
    """Draw the headline; None when there is nothing to draw."""
    if not ratios.draw(out / FOLDER / VERDICT, views):
        return None
    return Figure(
        role="verdict",
        path=f"{FOLDER}/{VERDICT}",
        alt="Ratio of p99, Steelyard's default over the best online peer, for each scenario and level",
        caption="Blue dots are met, orange crosses missed. Medians over the repeats.",
    )


def draw_scenario(out: Path, view: View) -> list[Figure]:
    """Draw what there is to draw of a scenario."""
    wanted: list[tuple[Role, Callable[[Path, View], bool]]] = [("p99", p99.draw), ("load", over_load.draw)]
    if view.scenario.load.generator == "open":
        wanted.append(("distribution", latency_distribution.draw))
    if view.scenario.load.generator == "open" or view.scenario.events:
        wanted.append(("time", over_time.draw))
    return [
        Figure(
            role=role,
            path=path,
            alt=f"{view.scenario.name}: {_alt(role, view)}",
            caption=_caption(role, view),
        )
        for role, draw in wanted
        if draw(out / (path := f"{FOLDER}/{view.scenario.name}-{role}.png"), view)
    ]


def _alt(role: Role, view: View) -> str:
    panels = [panel.title for panel in over_load.PANELS[view.scenario.load.generator]]
    return {
        "verdict": "",
        "p99": "p99 latency of each algorithm",
        "load": f"{wording.sentence(panels)} over {wording.level_unit(view.scenario.load)}",
        "distribution": "latency by percentile",
        "time": "share and CPU utilization of each server over time",
    }[role]


def _caption(role: Role, view: View) -> str:
    shown, known = len(choice.lines(view)), len(view.algorithms)
    some = f" {shown} of {known} algorithms; the others are in the tables." if shown < known else ""
    level = choice.main_level(view)
    at = wording.level(view.scenario.load, level) if level is not None else ""
    return {
        "verdict": "",
        "p99": "Dots are medians, bars reach from the lowest to the highest repeat, ± is σ; † means failures."
        f" The best is at the top; the line is Steelyard's default. {LOOK}",
        "load": f"Means over the repeats, bars are σ.{some} {LOOK}",
        "distribution": f"Medians over the repeats.{some} {LOOK}",
        "time": f"The first repeat at {at}, a running mean of {over_time.SMOOTHED} seconds, of up to"
        f" {over_time.COLUMNS} algorithms that were told nothing: the default, the best online"
        " peers, and the commonest.",
    }[role]
