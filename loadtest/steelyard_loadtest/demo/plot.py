"""Draws the demo: both phases side by side, five rows over the same time."""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # a file, never a window
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

from steelyard_loadtest.demo.aggregate import Figures, per_second, thirds
from steelyard_loadtest.demo.records import Observed, Phase
from steelyard_loadtest.demo.table import finding

# Okabe and Ito's palette, which the colour-blind can tell apart; the burnt server gets the first.
BURNED = "#D55E00"
OTHERS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
TOTAL, TAIL = "#222222", "#8A2BE2"
SHADE = "#F2E3D5"
GAP_S = 2.5  # observations are a second apart; a wider hole is drawn as one
ROWS = 5

Style = dict[str, Any]


def plot(file: Path, phases: Sequence[Phase], servers: Sequence[str], burned: str) -> None:
    """Draw the phases (one or two) into a PNG file."""
    settings: dict[Any, Any] = {
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
    }
    with mpl.rc_context(settings):
        figure, grid = plt.subplots(
            ROWS,
            len(phases),
            sharex="col",
            sharey="row",
            squeeze=False,
            figsize=(1.5 + 5 * len(phases), 12.5),
        )
        styles = server_styles(servers, burned)
        for column, phase in enumerate(phases):
            _draw_phase([grid[row][column] for row in range(ROWS)], phase, servers, styles)
            grid[0][column].set_title(
                f"{phase.title}\n{finding(thirds(phase, servers), burned)}", fontsize=10.5, loc="left"
            )
            grid[ROWS - 1][column].set_xlabel("time in the phase (s)")
        first = [grid[row][0] for row in range(ROWS)]
        _label_rows(first)
        drawn = (second for phase in phases for second in per_second(phase, servers))
        _scale_rows(first, any_latency=any(second.p50_ms is not None for second in drawn))
        figure.suptitle(
            f"A neighbour takes {burned}'s CPU in the shaded time: the same load, two ways to spread it",
            fontsize=13,
            fontweight="bold",
            x=0.01,
            ha="left",
        )
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="upper left", bbox_to_anchor=(0.005, 0.972), ncols=len(labels), frameon=False
        )
        figure.tight_layout(rect=(0, 0, 1, 0.955))
        figure.savefig(file, dpi=150)
        plt.close(figure)


def server_styles(servers: Sequence[str], burned: str) -> dict[str, Style]:
    """Give each server a colour and a dash, the burnt one the strongest."""
    styles: dict[str, Style] = {}
    others = [server for server in servers if server != burned]
    for position, server in enumerate(others):
        styles[server] = {
            "color": OTHERS[position % len(OTHERS)],
            "linestyle": DASHES[1 + position % 3],
            "linewidth": 1.5,
        }
    return {burned: {"color": BURNED, "linestyle": "-", "linewidth": 2.0}, **styles}


def _draw_phase(axes: Sequence[Axes], phase: Phase, servers: Sequence[str], styles: dict[str, Style]) -> None:
    share, weight, cpu, rate, latency = axes
    seconds = per_second(phase, servers)
    middles = [second.from_s + 0.5 for second in seconds]
    for server in servers:
        share.plot(
            middles, numbers(second.shares[server] for second in seconds), label=server, **styles[server]
        )
        times, weights = observations(phase.observed, server, lambda entry: entry.weight_share)
        weight.plot(times, weights, drawstyle="steps-post", **styles[server])
        times, utilizations = observations(phase.observed, server, lambda entry: entry.cpu_utilization)
        cpu.plot(times, utilizations, **styles[server])
    if not any(entry.cpu_utilization is not None for entry in phase.observed):
        cpu.text(0.5, 0.5, "not reported", transform=cpu.transAxes, ha="center", color="#777777")
    rate.plot(middles, [second.requests_per_s for second in seconds], color=TOTAL, label="sent")
    failures = [float(second.failures) for second in seconds]
    rate.plot(middles, failures, color=BURNED, linestyle=":", label="failed")
    rate.legend(loc="center left", frameon=False)
    _draw_latency(latency, middles, seconds)
    for axis in axes:
        axis.set_xlim(0, phase.planned_s)
        if phase.burn is not None:
            axis.axvspan(*phase.burn, color=SHADE, zorder=0, linewidth=0)


def _draw_latency(axis: Axes, middles: Sequence[float], seconds: Sequence[Figures]) -> None:
    axis.plot(middles, numbers(second.p99_ms for second in seconds), color=TAIL, linewidth=1.6, label="p99")
    axis.plot(middles, numbers(second.p50_ms for second in seconds), color=TOTAL, label="p50")
    axis.legend(loc="upper left", frameon=False, ncols=2)


def _label_rows(axes: Sequence[Axes]) -> None:
    labels = (
        "share of requests",
        "weight, part of all",
        "CPU utilization\n(of the server's limit)",
        "requests/s",
        "latency (ms)",
    )
    for axis, label in zip(axes, labels, strict=True):
        axis.set_ylabel(label)


def _scale_rows(axes: Sequence[Axes], *, any_latency: bool) -> None:
    share, weight, cpu, rate, latency = axes
    for axis in (share, weight, cpu):
        axis.set_ylim(bottom=0)
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    rate.set_ylim(bottom=0)
    if any_latency:  # where all requests failed, a logarithmic scale would have nothing to begin at
        latency.set_yscale("log")
    latency.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def numbers(values: Iterable[float | None]) -> list[float]:
    """Write what is unknown as NaN, which is drawn as a gap."""
    return [math.nan if value is None else value for value in values]


def observations(
    observed: Sequence[Observed], server: str, value_of: Callable[[Observed], float | None]
) -> tuple[list[float], list[float]]:
    """Give one server's times and values, with a NaN in every hole."""
    times: list[float] = []
    values: list[float] = []
    for entry in observed:
        if entry.server != server:
            continue
        if times and entry.t_s - times[-1] > GAP_S:
            times.append(times[-1])
            values.append(math.nan)
        times.append(entry.t_s)
        values.extend(numbers([value_of(entry)]))
    return times, values
