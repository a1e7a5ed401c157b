"""Draws the demo: both phases side by side, five rows over the same time."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from steelyard_loadtest.demo.phase_figures import Figures, finding, per_second, thirds
from steelyard_loadtest.demo.records import Observed, Phase
from steelyard_loadtest.reporting.plot_style import BLACK, BLUE, DASHES, GREEN, INK, ORANGE, PINK, SKY, YELLOW
from steelyard_loadtest.reporting.plots import Panel, Series, Span, draw

BURNED = ORANGE
OTHERS = (BLUE, GREEN, PINK, YELLOW, SKY, BLACK)
TAIL = "#8A2BE2"
SHADE = "#F2E3D5"
GAP_S = 2.5  # observations are a second apart; a wider hole is drawn as one

Style = dict[str, Any]


def plot(file: Path, phases: Sequence[Phase], servers: Sequence[str], burned: str) -> None:
    """Draw the phases (one or two) into a PNG file."""
    styles = server_styles(servers, burned)
    columns = [_panels(phase, servers, styles) for phase in phases]
    for column, phase in zip(columns, phases, strict=True):
        title = f"{phase.title}\n{finding(thirds(phase, servers), burned)}"
        column[0] = replace(column[0], title=title)
        column[-1] = replace(column[-1], x_label="time in the phase (s)")
    labels = (
        "share of requests",
        "weight, part of all",
        "CPU utilization\n(of the server's limit)",
        "requests/s",
        "latency (ms)",
    )
    columns[0] = [replace(panel, y_label=label) for panel, label in zip(columns[0], labels, strict=True)]
    draw(
        file,
        list(zip(*columns, strict=True)),
        size=(1.5 + 5 * len(phases), 12.5),
        title=f"A neighbour takes {burned}'s CPU in the shaded time: the same load, two ways to spread it",
        legend="outside lower left",
        legend_columns=len(servers),
        handles=[Line2D([], [], label=server, **styles[server]) for server in servers],
        dpi=150,
        settings={"font.size": 9.5},
        sharex="col",
        sharey="row",
    )


def server_styles(servers: Sequence[str], burned: str) -> dict[str, Style]:
    """Give each server a colour and a dash, the burnt one the strongest."""
    styles: dict[str, Style] = {burned: {"color": BURNED, "linestyle": "-", "linewidth": 2.0}}
    for place, server in enumerate(server for server in servers if server != burned):
        dash = DASHES[1 + place % 3]
        styles[server] = {"color": OTHERS[place % len(OTHERS)], "linestyle": dash, "linewidth": 1.5}
    return styles


def observations(
    observed: Sequence[Observed],
    server: str,
    value_of: Callable[[Observed], float | None],
    style: Style | None = None,
) -> Series:
    """Return one server's line, with a gap in every hole."""
    known = [entry for entry in observed if entry.server == server]
    times, values = [entry.t_s for entry in known], [value_of(entry) for entry in known]
    return Series(x=times, y=values, style=style or {}, gap=GAP_S)


def _panels(phase: Phase, servers: Sequence[str], styles: dict[str, Style]) -> list[Panel]:
    seconds = per_second(phase, servers)
    middles = [second.from_s + 0.5 for second in seconds]

    def line(value_of: Callable[[Figures], float | None], label: str = "", **style: object) -> Series:
        return Series(x=middles, y=[value_of(second) for second in seconds], label=label, style=style)

    shares, weights, cpu = [], [], []
    for server in servers:
        style = styles[server]
        steps = style | {"drawstyle": "steps-post"}
        shares.append(line(lambda second, of=server: second.shares[of], **style))  # type: ignore[misc]
        weights.append(observations(phase.observed, server, lambda entry: entry.weight_share, steps))
        cpu.append(observations(phase.observed, server, lambda entry: entry.cpu_utilization, style))
    rate = [
        line(lambda second: second.requests_per_s, "sent", color=INK),
        line(lambda second: second.failures, "failed", color=BURNED, linestyle=":"),
    ]
    latency = [
        line(lambda second: second.p99_ms, "p99", color=TAIL, linewidth=1.6),
        line(lambda second: second.p50_ms, "p50", color=INK),
    ]
    spans = [Span(begin=phase.burn[0], end=phase.burn[1], color=SHADE)] if phase.burn else []
    told: dict[str, Any] = {"x_limits": (0, phase.planned_s), "spans": spans}
    from_0: dict[str, Any] = told | {"y_limits": (0, None)}
    return [
        Panel(series=shares, y_percent=True, empty="", **from_0),
        Panel(series=weights, y_percent=True, empty="", **from_0),
        Panel(series=cpu, y_percent=True, empty="not reported", **from_0),
        Panel(series=rate, legend="center left", empty="", **from_0),
        Panel(series=latency, y_scale="log", legend="upper left", empty="", **told),
    ]
