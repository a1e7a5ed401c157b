"""Shares, utilizations and p99 over a trial, an algorithm a column, events marked (PNG files)."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from steelyard_controller import laws

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.plots.event_labels import Placed, labels, placed
from steelyard_loadtest.compare.page.view import View, main_level, shown_algorithms, unlike
from steelyard_loadtest.figures.fair_share import fair_shares
from steelyard_loadtest.measurements.trials import Measured
from steelyard_loadtest.reporting.plot_style import COLORS, FAINT, INK, SHORT_DASH
from steelyard_loadtest.reporting.plots import Panel, Rule, Series, draw
from steelyard_loadtest.scenario.algorithms import BY_NAME
from steelyard_loadtest.scenario.definition import Scenario

COLUMNS = 5
COLUMN_IN, ROW_IN = 2.9, 2.0
AXES_IN = (2.5, 1.55)
"""A panel's width and height without its labels."""
TITLE_CHARACTERS = 36
"""A longer title would reach the next column's."""
SMOOTHED = 3
"""Seconds of the running mean, centred: single ones are mostly the noise of few requests."""
FEW = 3
"""Servers, each of which has a colour of its own."""
DASHES: tuple[Any, ...] = ("-", "--", "-.", (0, (6, 1, 1, 1, 1, 1)))
"""Dotted lines are the fair shares."""
LABEL_PT = 9
"""Height of a line of the events' names, which are above the lines."""
MARGIN, P99_MARGIN = 1.05, 1.25
TICKS = 5
SHADE = "#F6E3D3"
ORDINARY = "#B8B8B8"
FAIR = "dotted: the share by its part of the CPU"
P99 = "p99"
ROWS = {
    "share": "share of the requests",
    "cpu_utilization": "CPU utilization",
    "pool_utilization": "workers in use",
    P99: "p99 latency (ms)",
}
"""Panels from the top down: each server's observations, and p99 of all requests of a second.

Workers if servers have a pool of them; p99 if the generator reports it.
"""


def draw_over_time(file: Path, view: View, *, headline: str = "") -> bool:
    """Draw the first repeat of a few algorithms; False, and no file, when no server was observed."""
    level = main_level(view)
    # This plot shows how algorithms find the weights, so it leaves out those that were given them.
    names = [name for name in shown_algorithms(view) if not BY_NAME[name].informed]
    trials = [_first(view, name, level) for name in names] if level is not None else []
    shown = [trial for trial in trials if trial is not None][:COLUMNS]
    if not shown:
        return False
    # A law with and without an indicator is to be compared with itself.
    shown.sort(key=lambda trial: (*laws.NAMES, "").index(BY_NAME[trial.trial.algorithm].law))
    absent = set() if any(server.workers for server in view.scenario.servers) else {"pool_utilization"}
    absent |= set() if any(trial.outcome.p99_by_second_ms for trial in shown) else {P99}
    rows = [name for name in ROWS if name not in absent]
    grid = [_row(view, shown, name, last=name == rows[-1]) for name in rows]
    size = (1.6 + COLUMN_IN * len(shown), 1.4 + ROW_IN * len(rows))
    draw(
        file, grid, size=size, title=headline, sharex=True, sharey="row",
        legend="outside lower center", legend_columns=6,
    )  # fmt: skip
    return True


def _row(view: View, trials: Sequence[Measured], name: str, *, last: bool) -> list[Panel]:
    """Return a panel a trial, all as high as the highest line."""
    panels = [_panel(view, trial, name, left=trial is trials[0], last=last) for trial in trials]
    known = [value for panel in panels for series in panel.series for value in series.y if value]
    known = [value for value in known if not math.isnan(value)]
    if name == P99:
        ends = (min(known) / P99_MARGIN, max(known) * P99_MARGIN) if known else (None, None)
        return [replace(panel, y_scale="log", y_limits=ends, y_percent=False) for panel in panels]
    top = max(known, default=1.0)
    lines = 1 + max((label.row for label in _labels(view.scenario, trials)), default=-1)
    room = MARGIN / (1 - (lines + 0.5) * LABEL_PT / 72 / AXES_IN[1]) if name == "share" and lines else MARGIN
    highest = min(top * room, max(top, 1.0) * MARGIN)
    return [replace(panel, y_limits=(0, highest)) for panel in panels]


def _labels(scenario: Scenario, trials: Sequence[Measured]) -> list[Placed]:
    seconds = max(trials[0].outcome.seconds, 1)
    return placed(labels(scenario), seconds, AXES_IN[0])


def shows_fair(view: View) -> bool:
    """Return whether the servers' CPU moves, and is known at each moment."""
    scenario = view.scenario
    moves = any(server.moves for server in scenario.servers) or any(
        event.do == "burn" for event in scenario.events
    )
    return moves and bool(fair_shares(scenario.servers, scenario.events, 0.0))


def server_styles(view: View) -> dict[str, dict[str, Any]]:
    """Give each server a colour; if some differ or have events, only those among many."""
    servers = [server.name for server in view.scenario.servers]
    coloured = servers if len(servers) <= FEW else unlike(view.scenario) or servers
    styles: dict[str, dict[str, Any]] = {
        name: {
            "color": COLORS[position % len(COLORS)],
            "linestyle": DASHES[position % len(DASHES)],
            "linewidth": 1.8,
            "label": name,
            "zorder": 3,
        }
        for position, name in enumerate(coloured)
    }
    for name in servers:
        other = {"color": ORDINARY, "linewidth": 1.0, "label": "the other servers", "zorder": 2}
        styles.setdefault(name, other)
    return styles


def running_mean(values: Sequence[float | None]) -> list[float]:
    """Return the mean of the known values among each one and its neighbours; NaN if there are none."""
    reach = SMOOTHED // 2
    around = [values[max(0, position - reach) : position + reach + 1] for position in range(len(values))]
    known = [[value for value in near if value is not None] for near in around]
    return [sum(near) / len(near) if near else float("nan") for near in known]


def _panel(view: View, trial: Measured, name: str, *, left: bool, last: bool) -> Panel:
    shares = name == "share"
    events = view.scenario.events
    title = textwrap.fill(
        scenario_text.title(trial.trial.algorithm), TITLE_CHARACTERS, break_long_words=False
    )
    styles = {} if name == P99 else server_styles(view)
    fair = [_fair(view, trial, server, styles[server]) for server in styles if shares and shows_fair(view)]
    fair += [FAIR_NAME] if fair else []
    takeovers = [server.takeover for server in view.scenario.servers if server.takeover]
    moments_s = [event.at_s for event in events if not event.for_s]
    moments_s += [takeover.at_s for takeover in takeovers]
    return Panel(
        series=[*(_series(trial, server, style, name) for server, style in styles.items()), *fair]
        or [_p99(trial.outcome.p99_by_second_ms)],
        title=title if shares else "",
        x_label="time (s)" if last else "",
        y_label=ROWS[name] if left else "",
        x_limits=(0, max(trial.outcome.seconds, 1)),
        y_limits=(0, None),
        y_percent=True,
        spans=[(event.at_s, event.at_s + event.for_s, SHADE) for event in events if event.for_s],
        rules=[Rule(at=at_s, axis="x", dash=SHORT_DASH) for at_s in dict.fromkeys(moments_s)],
        empty="",
        finish=partial(_finish, _labels(view.scenario, [trial]) if shares else ()),
    )


def _series(trial: Measured, server: str, style: dict[str, Any], name: str) -> Series:
    # After the load, shares are those of the queues that are left.
    seen = [entry for entry in trial.observed if entry.t_s <= trial.outcome.seconds]
    own = [entry for entry in seen if entry.server == server]
    values = [getattr(entry, name) for entry in own]
    label = style["label"]
    rest = {key: value for key, value in style.items() if key != "label"}
    return Series(x=[entry.t_s for entry in own], y=running_mean(values), label=label, style=rest)


def _p99(by_second_ms: Sequence[float | None]) -> Series:
    style = {"color": INK, "linewidth": 1.2}
    return Series(x=[second + 0.5 for second in range(len(by_second_ms))], y=by_second_ms, style=style)


def _fair(view: View, trial: Measured, server: str, style: dict[str, Any]) -> Series:
    scenario = view.scenario
    moments_s = [count / 10 for count in range(int(trial.outcome.seconds * 10))]  # a burn's steps stay steep
    fair = [fair_shares(scenario.servers, scenario.events, t_s)[server] for t_s in moments_s]
    dotted = {"color": style["color"], "linestyle": ":", "linewidth": 1.2, "zorder": 4}
    return Series(x=moments_s, y=fair, style=dotted)


FAIR_NAME = Series(x=[0.0], y=[None], label=FAIR, style={"color": FAINT, "linestyle": ":", "linewidth": 1.2})
"""Only for the legend, because each fair share has its server's colour."""


def _finish(named: Sequence[Placed], axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True))
    for label in named:
        axes.annotate(
            label.text, (label.x_s, 1), xycoords=("data", "axes fraction"), textcoords="offset points",
            xytext=(-3 if label.to_the_left else 3, -3 - LABEL_PT * label.row), va="top",
            ha="right" if label.to_the_left else "left", fontsize=7, color="#444444",
        )  # fmt: skip


def _first(view: View, name: str, level: float) -> Measured | None:
    repeats = [
        entry for entry in view.measured if (entry.trial.algorithm, entry.trial.level) == (name, level)
    ]
    return min((one for one in repeats if one.observed), key=lambda one: one.trial.repeat, default=None)
