"""Draws the evidence: every algorithm's ratios, a point a cluster; and three clusters over time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from steelyard_loadtest.reporting import plots
from steelyard_loadtest.reporting.plot_style import BLUE, GREEN, INK, ORANGE, PINK, REFERENCE, SKY
from steelyard_loadtest.reporting.plots import Mark, Panel, RowName, RowPanel, Rule, Series

from steelyard_simulator.model import Floats, RunResult
from steelyard_simulator.studies import evidence_clusters as declared
from steelyard_simulator.studies.evidence_page import LINES, Evidence
from steelyard_simulator.studies.measures import capacities, p99_by, shares

COLORS = dict(zip(LINES, (GREEN, BLUE, PINK, ORANGE), strict=True))
WINDOW_S = 2.0


def draw(file: Path, evidence: Evidence) -> None:
    """Draw the ratios into a PNG file, the best geometric mean on top."""
    algorithms = [name for name in declared.ALGORITHMS if name != declared.REFERENCE]
    algorithms.sort(key=lambda name: evidence.summary(name)[0])
    panel = RowPanel(
        rows=[_row(evidence, name) for name in algorithms],
        x_label=f"p99 over that of {declared.REFERENCE} (logarithmic); a point a cluster; "
        "bar and figures: geometric mean, worst",
        scale="log",
        rules=[Rule(at=1.0, axis="x", color=INK)],
    )
    names = [RowName(text=name, color=_color(name), bold=_color(name) == ORANGE) for name in algorithms]
    plots.draw(file, [[panel]], size=(11, 1.4 + 0.36 * len(algorithms)), names=names)


def _row(evidence: Evidence, name: str) -> list[Mark]:
    mean, worst = evidence.summary(name)
    points = [Mark(value=value, color=_color(name), size=4.5, alpha=0.5) for value in evidence.ratios(name)]
    told = f"{mean:.2f}, {worst:.3g}"
    return [*points, Mark(value=mean, high=worst, width=0.0, marker="|", size=15, text=told)]


def _color(name: str) -> str:
    if name in (*declared.OURS, *declared.BEHIND):
        return ORANGE
    return REFERENCE if name.startswith("true") else SKY if name == declared.OURS_BLIND else BLUE


def draw_curves(file: Path, runs: Mapping[str, Mapping[str, RunResult]]) -> None:
    """Draw the first server's share beside the truth, and p99 below it, a column a cluster."""
    given, latencies = [], []
    for cluster, own in runs.items():
        case, ticks = declared.clusters()[cluster].case, own[declared.DEFAULT].ticks
        end_s = case.duration_s - declared.DRAIN_S
        fair = shares(capacities(case, ticks.t_s))[:, 0]
        dashed = {"color": INK, "ls": "--"}
        lines = [Series(x=ticks.t_s.tolist(), y=fair.tolist(), label="its fair share", style=dashed)]
        for name in (declared.CSWRR, declared.DEFAULT):
            lines.append(_line(name, ticks.t_s, own[name].ticks.weights[:, 0].tolist()))
        given.append(
            Panel(
                series=lines, title=cluster, y_label="published share of the first server", y_percent=True,
                y_limits=(0, None), x_limits=(0, end_s),
            )
        )  # fmt: skip
        middles_s = np.arange(0.0, end_s, WINDOW_S) + WINDOW_S / 2
        latencies.append(
            Panel(
                series=[_line(name, middles_s, p99_by(its, WINDOW_S, end_s)) for name, its in own.items()],
                y_scale="log", x_limits=(0, end_s), x_label="seconds",
                y_label="p99 of two seconds, ms (logarithmic)",
            )
        )  # fmt: skip
    plots.draw(file, [given, latencies], size=(13, 6.5), legend="outside lower center", legend_columns=5)


def _line(name: str, x: Floats, y: Sequence[float]) -> Series:
    return Series(x=x.tolist(), y=y, label=name, style={"color": COLORS[name], "linewidth": 1.3})
