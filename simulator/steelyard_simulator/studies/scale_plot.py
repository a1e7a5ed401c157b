"""Draws the scale study: six figures against the number of servers, a colour a number of load balancers."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter
from steelyard_loadtest.reporting import plots
from steelyard_loadtest.reporting.plot_style import MARKERS, REFERENCE
from steelyard_loadtest.reporting.plots import Panel, Rule, Series
from steelyard_loadtest.reporting.wording import counted, decimal_bytes

from steelyard_simulator.studies.measures import Measures
from steelyard_simulator.studies.scale_grid import (
    DEFAULT_PICKER,
    PLAIN_PICKER,
    Place,
    Points,
    TickCpu,
    of_picker,
)
from steelyard_simulator.studies.scale_messages import GIGABIT_BYTES_PER_S, TICK_S, most_servers_in_an_item
from steelyard_simulator.studies.scale_page import Grid, volume_of

DARKEST = 256

Style = dict[str, Any]


def draw(file: Path, points: Points, grid: Grid, cpu: Sequence[TickCpu]) -> None:
    """Draw the study into a PNG file."""
    sizes = sorted({servers for servers, _ in grid})
    styles = _styles(sorted({count for _, count in grid}))
    ours, plain = of_picker(points, DEFAULT_PICKER), of_picker(points, PLAIN_PICKER)
    most = most_servers_in_an_item()

    def panel(title: str, unit: str, series: Sequence[Series], *, end: int = sizes[-1], **more: Any) -> Panel:  # noqa: ANN401 - of Panel
        if "y_scale" not in more:
            # With few seeds an interval may be wider than all that is worth seeing: the means set the scale.
            means = [value for line in series for value in line.y if value is not None]
            more["y_limits"] = (0, 1.5 * max((mean for mean in means if not math.isnan(mean)), default=1.0))
        return Panel(
            series=series,
            title=title,
            x_label="servers",
            y_label=unit,
            x_counts=sizes,
            x_limits=(sizes[0] / 1.15, end * 1.15),
            **more,
        )

    panels = [
        panel(
            "Published weights at the wrong server",
            "% of the traffic, against the true capacities",
            _intervals(ours, "published_error", styles, 100),
        ),
        panel(
            "Requests elsewhere than published (picker vnswrr)",
            "% of the requests of the measured ticks",
            [*_intervals(plain, "achieved_error", styles, 100), _random_picks(plain, min(styles))],
            legend="upper right",
        ),
        panel(
            "p99 against one load balancer's",
            "ratio (vnswrr2; each sees its own requests only)",
            _intervals(ours, "p99_ratio", styles, 1),
            rules=[Rule(at=1, dash="-", width=0.8)],
        ),
        panel(
            "Oscillation: traffic that moves each tick",
            "% of the traffic",
            _intervals(ours, "moved", styles, 100),
        ),
        panel(
            "Out of Memcached, the larger direction",
            "bytes per second",
            _lines(grid, styles, lambda at: volume_of(*at)["out_of"]),
            end=max(sizes[-1], most),
            y_scale="log",
            rules=[
                Rule(at=GIGABIT_BYTES_PER_S, text="1 Gbit/s"),
                Rule(at=10 * GIGABIT_BYTES_PER_S, text="10 Gbit/s"),
                Rule(at=most, axis="x", dash=":", text=f"one item of 1 MB holds\n{most:,} servers"),
            ],
            finish=_bytes_axis,
        ),
        panel(
            "CPU of a controller's tick, on this machine",
            "ms (decode, assemble, law, encode)",
            _cpu_lines(cpu, styles),
            y_scale="log",
            rules=[Rule(at=1000 * TICK_S, text="the tick is over")],
            legend="lower right",
        ),
    ]
    plots.draw(
        file,
        [panels[:3], panels[3:]],
        size=(16, 9.5),
        title=f"{sizes[0]:,} to {sizes[-1]:,} servers, simulated, with weights that change every tick",
        handles=[
            Line2D([], [], label=counted(count, "load balancer"), **style) for count, style in styles.items()
        ],
        legend="outside lower center",
        legend_columns=len(styles),
        dpi=130,
        settings={"font.size": 9.5},
    )


def _styles(balancers: Sequence[int]) -> dict[int, Style]:
    """Give each number of load balancers the colour it has in every plot, darker for more, and a marker."""
    colors = mpl.colormaps["viridis_r"]
    return {
        count: {
            "color": colors(min(1.0, 0.18 + 0.82 * math.log2(count) / math.log2(DARKEST))),
            "marker": MARKERS[place % len(MARKERS)],
            "markersize": 5,
            "linewidth": 1.6,
        }
        for place, count in enumerate(balancers)
    }


def _intervals(
    points: Mapping[Place, Measures], measure: str, styles: dict[int, Style], scale: float
) -> list[Series]:
    series = []
    for count, style in styles.items():
        own = {k: each[measure] for (k, n), each in points.items() if n == count and measure in each}
        half = [0.0 if math.isnan(each.half_width) else scale * each.half_width for each in own.values()]
        if own:
            y = [scale * each.mean for each in own.values()]
            series.append(Series(x=list(own), y=y, style=style, below=half, above=half))
    return series


def _random_picks(points: Mapping[Place, Measures], count: int) -> Series:
    alone = {k: 100 * each["random_error"].mean for (k, n), each in points.items() if n == count}
    style = {"color": REFERENCE, "linestyle": "--"}
    return Series(x=list(alone), y=list(alone.values()), style=style, label="independent random picks")


def _lines(grid: Grid, styles: dict[int, Style], value: Callable[[Place], float]) -> list[Series]:
    series = []
    for count, style in styles.items():
        own = [at for at in grid if at[1] == count]
        series.append(Series(x=[servers for servers, _ in own], y=[value(at) for at in own], style=style))
    return series


def _cpu_lines(cpu: Sequence[TickCpu], styles: dict[int, Style]) -> list[Series]:
    ticks = {(each.servers, each.load_balancers): each.tick_ms for each in cpu}
    law = {each.servers: each.law_ms for each in cpu if each.load_balancers == min(styles)}
    style = {"color": REFERENCE, "linestyle": "-.", "marker": "."}
    alone = Series(x=list(law), y=list(law.values()), style=style, label="the law alone")
    return [*_lines(list(ticks), styles, lambda at: ticks[at]), alone]


def _bytes_axis(axes: Axes) -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: decimal_bytes(value)))
