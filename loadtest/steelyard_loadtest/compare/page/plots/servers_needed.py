"""p99 over the load with its bound, and the servers that each algorithm needs for one load (PNG files)."""

from pathlib import Path

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.fleet_tables import needs_of
from steelyard_loadtest.compare.page.scenario_text import LOOKS
from steelyard_loadtest.compare.page.view import View
from steelyard_loadtest.figures.servers_needed import Need
from steelyard_loadtest.reporting.plot_style import INK
from steelyard_loadtest.reporting.plots import Mark, Panel, RowName, RowPanel, Rule, Series, draw
from steelyard_loadtest.scenario.algorithms import BY_NAME, DEFAULT

ROW_IN = 0.3
LEAST_IN = 3.4
LEGEND_IN = 0.5
ROOM = 1.25
"""For the numbers at the right of the bars."""


def draw_servers_needed(file: Path, view: View) -> bool:
    """Draw both panels; False, and no file, if no number of servers is known."""
    known = needs_of(view)
    if known is None:
        return False
    load = view.scenario.load
    scale = 100 if load.of_capacity else 1
    curves = Panel(
        series=[
            Series(
                x=[level * scale for level in view.levels],
                y=[
                    spread.median if (spread := view.spread(need.algorithm, level, "p99_ms")) else None
                    for level in view.levels
                ],
                label=scenario_text.title(need.algorithm),
                style=LOOKS[need.algorithm].line,
            )
            for need in known.each
        ],
        title="p99 latency (ms)",
        x_label=f"load, {scenario_text.level_unit(load)}",
        y_scale="log",
        finish=lambda axes: axes.set_xticks([level * scale for level in view.levels]),
        rules=[Rule(at=known.bound_ms, text=f"bound: {known.bound_ms:.0f} ms")],
    )
    most = max((need.servers for need in known.each if need.servers is not None), default=1.0)
    bars = RowPanel(
        rows=[_marks(need) for need in known.each],
        title="servers needed for the same load at this p99",
        x_label="servers",
        scale="linear",
        limits=(0, most * ROOM),
    )
    names = [_name(need.algorithm) for need in known.each]
    draw(
        file, [[curves, bars]], size=(11, max(LEAST_IN, 1.1 + ROW_IN * len(names)) + LEGEND_IN), names=names,
        legend="outside lower center", legend_columns=3,
    )  # fmt: skip
    return True


def _marks(need: Need) -> list[Mark]:
    look, strong = LOOKS[need.algorithm], need.algorithm == DEFAULT
    if need.servers is None:
        return [Mark(value=0.0, marker="", text="over the bound at each level, or not known")]
    text = f"{need.bound}{need.servers:.1f}"
    alpha = 1.0 if strong else 0.6
    return [Mark(value=need.servers, color=look.color, marker="bar", text=text, bold=strong, alpha=alpha)]


def _name(algorithm: str) -> RowName:
    ours = BY_NAME[algorithm].ours
    return RowName(
        text=scenario_text.title(algorithm), color="#B04A00" if ours else INK, bold=algorithm == DEFAULT
    )
