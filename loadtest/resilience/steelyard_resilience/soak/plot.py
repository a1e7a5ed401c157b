"""Draws the soak: the gain of each process since its warm-up, and its bound (a PNG file)."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from steelyard_loadtest.reporting import plot_style
from steelyard_loadtest.reporting.plots import Panel, Rule, Series, draw
from steelyard_loadtest.reporting.wording import MB

from steelyard_resilience.soak.leaks import FIGURES, KINDS, NGINX, PYTHON, SERVER, judged, kind
from steelyard_resilience.soak.readings import MASTER, WORKER, Soaked, lives
from steelyard_resilience.soak.timetable import Plan

PROCESSES = (
    ("nginx", {MASTER: plot_style.BLACK, WORKER: plot_style.ORANGE}, NGINX),
    ("controllers", {"controller-1": plot_style.BLUE, "controller-2": plot_style.SKY}, PYTHON),
    ("agents", {"agents": plot_style.GREEN}, PYTHON),
    ("demo servers", {"demo servers": plot_style.PINK}, SERVER),
)
"""The panels: title, the lines' colors by names of `KINDS`, and the bounds of growth."""

UNITS = {"private_bytes": (MB, ", MB"), "descriptors": (1, "")}
"""The rows of panels: the figure, with its unit and the title's end."""


def plot(file: Path, soaked: Soaked, plan: Plan) -> None:
    """Draw the run so far into a PNG file."""
    grid = panels(soaked, plan)
    draw(file, grid, size=(13, 5.6), sharex=True, legend="outside lower center", legend_columns=6)


def panels(soaked: Soaked, plan: Plan) -> list[list[Panel]]:
    """Return the panels in rows: memory, and descriptors."""
    reloads = [
        Rule(at=at_s / 60, axis="x", color=plot_style.FAINT, dash=plot_style.SHORT_DASH)
        for at_s in soaked.reloads
    ]
    return [
        [
            Panel(
                series=list(_lines(soaked, plan, colors, figure)),
                title=f"{title}: {FIGURES[figure]}{unit_text}",
                x_label="minutes (pale: not judged; dotted: a reload)" if figure == "descriptors" else "",
                y_label="gained (dashed: bound)" if title == "nginx" else "",
                x_limits=(0, max(soaked.at_s, 1.0) / 60),
                rules=[Rule(at=may.bounds[figure] / unit, color=plot_style.INK), *reloads],
                empty="not judged",
            )
            for title, colors, may in PROCESSES
        ]
        for figure, (unit, unit_text) in UNITS.items()
    ]


def _lines(soaked: Soaked, plan: Plan, colors: Mapping[str, str], figure: str) -> Iterator[Series]:
    unit, _ = UNITS[figure]
    for (process, _), life in lives(soaked.readings).items():
        name = kind(process)
        if name in colors and (warm := judged(life, KINDS[name], plan)):
            begin = getattr(warm[0], figure)
            for part, label, alpha in ((life, "", 0.35), (warm, name, 1.0)):
                yield Series(
                    x=[one.at_s / 60 for one in part],
                    y=[(getattr(one, figure) - begin) / unit for one in part],
                    label=label,
                    style={"color": colors[name], "linewidth": 1.2, "alpha": alpha},
                )
