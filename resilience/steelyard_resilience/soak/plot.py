"""Draws the soak: small multiples over one time, what a line may grow as a bar (a PNG file)."""

from collections.abc import Callable, Sequence
from itertools import cycle
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from steelyard_loadtest.reporting.plot_style import BLACK, BLUE, FAINT, GREEN, ORANGE, PINK, SHORT_DASH, SKY
from steelyard_loadtest.reporting.plots import Panel, Rule, Series, Span, draw
from steelyard_loadtest.reporting.wording import KB, MB, clock

from steelyard_resilience.soak.leaks import COMPILING, PYTHON, SERVER
from steelyard_resilience.soak.readings import (
    MASTER,
    WORKER,
    WORKER_PREFIX,
    Overview,
    Reading,
    Soaked,
    lives,
)

T = TypeVar("T", Reading, Overview)

COLORS = {
    WORKER: (ORANGE,),
    MASTER: (BLACK,),
    "controller": (BLUE, SKY),
    "agent": (GREEN,),
    "server": (PINK,),
}
PROCESSES = (
    ("nginx", (MASTER, WORKER), COMPILING),
    ("controllers", ("controller",), PYTHON),
    ("agents", ("agent",), PYTHON),
    ("demo servers", ("server",), SERVER),
)
FIGURES = (("private memory, MB", "private_bytes", MB), ("descriptors", "descriptors", 1))

SHADE = "#EEEEEE"
BAR = "#444444"
HEIGHT_IN_BOUNDS = 6.0
"""A panel is at least so many times as high as a line may rise: noise is not to look like a leak."""
BAR_AT = 0.985
"""Of the width."""


def plot(file: Path, soaked: Soaked) -> None:
    """Draw the run into a PNG file, as far as it went."""
    dashed = {"linewidth": 0.8, "linestyle": SHORT_DASH}
    draw(
        file,
        panels(soaked),
        size=(13, 7.6),
        sharex=True,
        legend="outside lower center",
        legend_columns=3,
        handles=[
            Line2D([], [], color=SHADE, linewidth=8, label="warm-up, not judged"),
            Line2D([], [], color=FAINT, label="reload: new workers", **dashed),  # type: ignore[arg-type]
            Line2D([], [], color=BAR, linewidth=2.5, label="may grow by so much"),
        ],
    )


def panels(soaked: Soaked) -> list[list[Panel]]:
    """Return the panels in rows: memory, descriptors, and the whole."""
    rows = [
        [
            _panel(
                soaked, f"{title}: {figure}", _lives(soaked, kinds, member, unit),
                may_grow=getattr(may, member) / unit, warm_up_s=may.warm_after_s(soaked.seconds),
            )
            for title, kinds, may in PROCESSES
        ]
        for figure, member, unit in FIGURES
    ]  # fmt: skip
    seen = soaked.overviews
    stores = [
        _series("Memcached", GREEN, seen, lambda one: one.items_bytes, KB),
        _series("Redis", PINK, seen, lambda one: one.redis_bytes, KB),
    ]
    whole = {
        "requests in flight at all servers": [_series("", ORANGE, seen, _in_flight)],
        "requests/s": [_rate("ended", BLUE, seen, "sent"), _rate("failed", ORANGE, seen, "failed")],
        "steps of churn/s": [_rate("", BLACK, seen, "steps")],
        "kept in the stores, kB": [line for line in stores if line.y],
    }
    time = "time (minutes)"
    return [*rows, [_panel(soaked, title, lines, x_label=time) for title, lines in whole.items()]]


def _panel(
    soaked: Soaked,
    title: str,
    series: Sequence[Series],
    *,
    may_grow: float = 0.0,
    warm_up_s: float = 0.0,
    x_label: str = "",
) -> Panel:
    # Until warm_up_s nothing is judged; of those that start later, from their start.
    end_s = max((one.at_s for one in soaked.overviews), default=1.0)
    values = [value for line in series for value in line.y if value is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    bottom, height = 0.0, max(high * 1.25, 1)
    if may_grow:
        height = max((high - low) * 1.3, may_grow * HEIGHT_IN_BOUNDS)
        bottom = max(0.0, (low + high - height) / 2)

    def finish(axes: Axes) -> None:
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 1.2, 2, 3, 6, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: clock(value)))
        if may_grow and values:
            foot = bottom + height * 0.04
            # x as a part of the width, y in the panel's own unit.
            axes.plot(
                [BAR_AT, BAR_AT], [foot, foot + may_grow], color=BAR, linewidth=2.5,
                solid_capstyle="butt", transform=axes.get_yaxis_transform(), zorder=4,
            )  # fmt: skip

    return Panel(
        series=series,
        title=title,
        x_label=x_label,
        x_limits=(0, end_s),
        y_limits=(bottom, bottom + height) if values else (None, None),
        spans=[Span(begin=0, end=min(warm_up_s, end_s), color=SHADE)],
        rules=[Rule(at=at_s, axis="x", color=FAINT, dash=SHORT_DASH, width=0.8) for at_s in soaked.reloads],
        legend="upper left" if any(line.label for line in series) else "",
        empty="not to be read here",
        finish=finish,
    )


def _lives(soaked: Soaked, kinds: Sequence[str], member: str, unit: float) -> list[Series]:
    series: list[Series] = []
    named: set[str] = set()
    for kind in kinds:
        colors = COLORS[kind]
        own = [item for item in lives(soaked.readings).items() if item[0][0].startswith(kind)]
        for ((process, _), life), color in zip(own, cycle(colors), strict=False):
            # One name for all that look alike.
            label = process if len(colors) > 1 or kind == process else f"{kind}s"
            shown = "" if label in named else label
            series.append(_series(shown, color, life, attrgetter(member), unit))
            named.add(label)
    return series


def _series(
    label: str, color: str, items: Sequence[T], figure: Callable[[T], float | None], unit: float = 1
) -> Series:
    known = [(one.at_s, value / unit) for one in items if (value := figure(one)) is not None]
    return _line(label, color, [at_s for at_s, _ in known], [value for _, value in known])


def _rate(label: str, color: str, seen: Sequence[Overview], member: str) -> Series:
    at_s = np.array([one.at_s for one in seen])
    per_s = np.diff([getattr(one, member) for one in seen]) / np.maximum(np.diff(at_s), 1e-9)
    return _line(label, color, at_s[1:].tolist(), per_s.tolist())


def _line(label: str, color: str, times_s: Sequence[float], values: Sequence[float]) -> Series:
    return Series(x=times_s, y=values, label=label, style={"color": color, "linewidth": 1.2, "zorder": 3})


def _in_flight(one: Overview) -> int:
    return sum(count for name, count in one.in_flight.items() if not name.startswith(WORKER_PREFIX))
