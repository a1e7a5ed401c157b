"""Draws the scale study: six figures against the number of servers, a colour a number of load balancers."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # a file, never a window
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from steelyard_loadtest.simulate.studies.scale.figures import Point, TickCpu
from steelyard_loadtest.simulate.studies.scale.grid import DEFAULT_PICKER, PLAIN_PICKER
from steelyard_loadtest.simulate.studies.statistics import Interval

REFERENCE = "#555555"
GIGABIT_BYTES = 125e6
MARKERS = "osD^vPX"
DARKEST = 256

Style = dict[str, Any]


def draw(
    file: Path,
    points: Sequence[Point],
    bytes_per_s: Sequence[tuple[int, int, float]],
    cpu: Sequence[TickCpu],
    *,
    most_in_a_table: int,
    tick_ms: float,
) -> None:
    """Draw the study into a PNG file; `bytes_per_s` has (servers, load balancers, bytes/s)."""
    settings: dict[Any, Any] = {
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
    }
    balancers = sorted({count for _, count, _ in bytes_per_s})
    sizes = sorted({servers for servers, _, _ in bytes_per_s})
    styles = _styles(balancers)
    with mpl.rc_context(settings):
        figure, grid = plt.subplots(2, 3, figsize=(16, 9.5))
        published, achieved, tail, motion, volume, work = grid.flat
        ours = [point for point in points if point.cell.picker == DEFAULT_PICKER]
        plain = [point for point in points if point.cell.picker == PLAIN_PICKER]
        _intervals(published, ours, "published_error", styles, scale=100)
        _title(
            published,
            "Published weights at the wrong server",
            "% of the traffic, against the true capacities",
        )
        _achieved(achieved, plain, styles)
        _intervals(tail, ours, "p99_ratio", styles)
        tail.axhline(1, color=REFERENCE, linewidth=0.8)
        _title(tail, "p99 against one load balancer's", "ratio (vnswrr2; each sees its own requests only)")
        _intervals(motion, ours, "moved", styles, scale=100)
        _title(motion, "Oscillation: traffic that moves each tick", "% of the traffic")
        _volume(volume, bytes_per_s, styles, most_in_a_table)
        _work(work, cpu, styles, tick_ms)
        for axis in grid.flat:
            _servers_axis(axis, sizes, max(sizes[-1], most_in_a_table) if axis is volume else sizes[-1])
        for axis in (published, tail, motion, achieved):
            _from_zero(axis)
        handles, labels = volume.get_legend_handles_labels()
        figure.legend(
            handles[: len(balancers)], labels[: len(balancers)], loc="upper right", ncols=len(balancers),
            frameon=False, bbox_to_anchor=(0.995, 0.965),
        )  # fmt: skip
        figure.suptitle(
            f"{sizes[0]:,} to {sizes[-1]:,} servers, simulated, with weights that change every tick",
            fontsize=13, fontweight="bold", x=0.01, ha="left",
        )  # fmt: skip
        figure.tight_layout(rect=(0, 0, 1, 0.95))
        figure.savefig(file, dpi=130)
        plt.close(figure)


def _styles(balancers: Sequence[int]) -> dict[int, Style]:
    """Give each number of load balancers the colour it has in every plot, darker for more, and a marker."""
    colors = mpl.colormaps["viridis_r"]
    return {
        count: {
            "color": colors(min(1.0, 0.18 + 0.82 * math.log2(count) / math.log2(DARKEST))),
            "marker": MARKERS[place % len(MARKERS)],
            "markersize": 5,
            "linewidth": 1.6,
            "label": f"{count} load balancer{'s' if count > 1 else ''}",
        }
        for place, count in enumerate(balancers)
    }


def _intervals(
    axis: Axes, points: Sequence[Point], measure: str, styles: dict[int, Style], scale: float = 1.0
) -> None:
    def found(point: Point) -> Interval | None:
        return point.measures.get(measure)

    _lines(axis, points, found, styles, scale)


def _lines(
    axis: Axes,
    points: Sequence[Point],
    found: Callable[[Point], Interval | None],
    styles: dict[int, Style],
    scale: float,
) -> None:
    for count, style in styles.items():
        own = [(point.cell.servers, found(point)) for point in points if point.cell.load_balancers == count]
        known = [(servers, value) for servers, value in own if value is not None]
        if known:
            half = [0.0 if math.isnan(value.half_width) else scale * value.half_width for _, value in known]
            axis.errorbar(
                [servers for servers, _ in known],
                [scale * value.mean for _, value in known],
                yerr=half,
                capsize=2.5,
                elinewidth=0.8,
                **style,
            )


def _achieved(axis: Axes, points: Sequence[Point], styles: dict[int, Style]) -> None:
    _intervals(axis, points, "achieved_error", styles, scale=100)
    alone = [point for point in points if point.cell.load_balancers == min(styles)]
    axis.plot(
        [point.cell.servers for point in alone],
        [100 * point.measures["random_error"].mean for point in alone],
        color=REFERENCE,
        linestyle="--",
        label="independent random picks",
    )
    if alone:
        axis.annotate(
            "independent random picks", (alone[0].cell.servers, 100 * alone[0].measures["random_error"].mean),
            xytext=(4, 5), textcoords="offset points", color=REFERENCE, fontsize=8.5,
        )  # fmt: skip
    _title(
        axis, "Requests elsewhere than published (picker vnswrr)", "% of the requests of the measured ticks"
    )


def _volume(
    axis: Axes, bytes_per_s: Sequence[tuple[int, int, float]], styles: dict[int, Style], most: int
) -> None:
    for count, style in styles.items():
        own = [(servers, rate) for servers, balancers, rate in bytes_per_s if balancers == count]
        axis.plot([servers for servers, _ in own], [rate for _, rate in own], **style)
    axis.set_yscale("log")
    for rate, name in ((GIGABIT_BYTES, "1 Gbit/s"), (10 * GIGABIT_BYTES, "10 Gbit/s")):
        axis.axhline(rate, color=REFERENCE, linestyle="--", linewidth=0.9)
        axis.annotate(
            name, (0.01, rate), xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points",
            color=REFERENCE, fontsize=8.5,
        )  # fmt: skip
    axis.axvline(most, color=REFERENCE, linestyle=":", linewidth=1.2)
    axis.annotate(
        f"one item of 1 MB holds\n{most:,} servers", (most, 0.02), xycoords=("data", "axes fraction"),
        xytext=(-4, 0), textcoords="offset points", ha="right", color=REFERENCE, fontsize=8.5,
    )  # fmt: skip
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _bytes(value)))
    _title(axis, "Out of Memcached, the larger direction", "bytes per second")


def _work(axis: Axes, cpu: Sequence[TickCpu], styles: dict[int, Style], tick_ms: float) -> None:
    for count, style in styles.items():
        own = [each for each in cpu if each.load_balancers == count]
        axis.plot([each.servers for each in own], [each.tick_ms for each in own], **style)
    law = {each.servers: each.law_ms for each in cpu if each.load_balancers == min(styles)}
    axis.plot(
        list(law), list(law.values()), color=REFERENCE, linestyle="-.", marker=".", label="the law alone"
    )
    if law:
        last = max(law)
        axis.annotate(
            "the law alone", (last, law[last]), xytext=(-4, 7), ha="right", textcoords="offset points",
            color=REFERENCE, fontsize=8.5,
        )  # fmt: skip
    axis.axhline(tick_ms, color=REFERENCE, linestyle="--", linewidth=0.9)
    axis.annotate(
        "the tick is over", (0.01, tick_ms), xycoords=("axes fraction", "data"), xytext=(0, 3),
        textcoords="offset points", color=REFERENCE, fontsize=8.5,
    )  # fmt: skip
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    _title(axis, "CPU of a controller's tick, on this machine", "ms (decode, assemble, law, encode)")


def _from_zero(axis: Axes) -> None:
    # With few seeds an interval may be wider than all that is worth seeing: the means set the scale.
    lines = [line for line in axis.get_lines() if line.get_linestyle() != "None"]  # the others are caps
    means = [float(value) for line in lines for value in np.asarray(line.get_ydata()) if not np.isnan(value)]
    axis.set_ylim(0, 1.5 * max(means, default=1.0))


def _title(axis: Axes, title: str, unit: str) -> None:
    axis.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
    axis.set_ylabel(unit)


def _servers_axis(axis: Axes, sizes: Sequence[int], most: int) -> None:
    axis.set_xscale("log")
    axis.set_xlim(sizes[0] / 1.15, most * 1.15)
    axis.xaxis.set_major_locator(FixedLocator(list(sizes)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_xlabel("servers")


def _bytes(value: float) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g} B"
