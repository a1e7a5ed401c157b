"""Figures over the level of load, a line an algorithm: the paper's figures 2 to 4, the study's 7 to 11,
and vproxy's table as a plot (matplotlib, a PNG file).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from steelyard_loadtest.lab.report import choice, wording
from steelyard_loadtest.lab.report.palette import LOOKS
from steelyard_loadtest.lab.report.plots.canvas import (
    canvas,
    line_style,
    log_scale,
    plain_numbers,
    spans_decades,
)
from steelyard_loadtest.lab.report.view import View
from steelyard_loadtest.lab.scenario.model import Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One figure over the level."""

    metric: str
    title: str


PANELS: dict[Generator, tuple[Panel, ...]] = {
    "siege": (
        Panel(metric="concurrency", title="actual concurrency (requests in flight)"),
        Panel(metric="mean_ms", title="response time (mean, ms)"),
        Panel(metric="succeeded_per_s", title="throughput (requests/s that succeeded)"),
    ),
    "locust": (
        Panel(metric="requests_per_s", title="RPS (failures among them)"),
        Panel(metric="p50_ms", title="median latency (ms)"),
        Panel(metric="max_ms", title="maximal latency (ms)"),
    ),
    "wrk": (
        Panel(metric="requests_per_s", title="requests/s"),
        Panel(metric="p99_ms", title="p99 latency (ms)"),
        Panel(metric="balancer_cpu_us_per_request", title="balancer CPU per request (µs)"),
    ),
    "open": (
        Panel(metric="p50_ms", title="median latency (ms)"),
        Panel(metric="p99_ms", title="p99 latency (ms)"),
        Panel(metric="concurrency", title="concurrency (requests in flight)"),
    ),
}


def draw(file: Path, view: View) -> bool:
    """Draw the panels of the scenario's generator; False, and no file, with fewer than two levels."""
    names = choice.lines(view)
    if len(view.levels) < 2:
        return False
    panels = PANELS[view.scenario.load.generator]
    with canvas(file, 1, len(panels), figsize=(4.1 * len(panels), 4.6)) as (figure, grid):
        for axes, panel in zip(grid[0], panels, strict=True):
            _panel(axes, view, panel, names)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8.5)
    return True


def _panel(axes: Axes, view: View, panel: Panel, names: Sequence[str]) -> None:
    drawn: list[float] = []
    for name in names:
        spreads = [view.spread(name, level, panel.metric) for level in view.levels]
        values = [float("nan") if spread is None else spread.mean for spread in spreads]
        drawn += [spread.mean for spread in spreads if spread]
        axes.plot(view.levels, values, label=wording.title(name), **line_style(name))
        for level, spread in zip(view.levels, spreads, strict=True):
            if spread and spread.sigma:
                axes.errorbar([level], [spread.mean], yerr=[spread.sigma], fmt="none", capsize=2,
                              ecolor=LOOKS[name].color, elinewidth=0.8)  # fmt: skip
    axes.set_title(panel.title)
    if spans_decades(drawn):
        log_scale(axes, "y", drawn)
    else:
        axes.set_ylim(bottom=0)
        plain_numbers(axes.yaxis)
    _levels(axes, view)


def _levels(axes: Axes, view: View) -> None:
    load = view.scenario.load
    if spans_decades(view.levels) and len(view.levels) <= choice.PANELS:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    # Ten labels in a small panel touch: then every second one, and the highest.
    step = 1 if len(view.levels) <= 5 else 2
    axes.xaxis.set_major_locator(FixedLocator(view.levels[::-step]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.level_number(load, value)))
    axes.set_xlabel(wording.level_unit(load))
