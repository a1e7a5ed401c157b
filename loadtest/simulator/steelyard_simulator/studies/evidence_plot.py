"""Draws the evidence: every algorithm's ratios, one point for each cluster."""

from pathlib import Path

from steelyard_loadtest.reporting import plots
from steelyard_loadtest.reporting.plot_style import BLUE, INK, ORANGE, REFERENCE, SKY
from steelyard_loadtest.reporting.plots import Mark, RowName, RowPanel, Rule

from steelyard_simulator.studies import evidence_clusters as declared
from steelyard_simulator.studies.evidence_page import Evidence


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
    label = f"{mean:.2f}, {worst:.3g}"
    return [*points, Mark(value=mean, high=worst, width=0.0, marker="|", size=15, text=label)]


def _color(name: str) -> str:
    if name in (*declared.OURS, *declared.BEHIND):
        return ORANGE
    return REFERENCE if name.startswith("true") else SKY if name == declared.OUR_LEAST_CONN_EQUAL else BLUE
