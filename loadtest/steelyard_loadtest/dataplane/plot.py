"""Draws the figures: CPU per request against the number of servers, and the ratios to nginx's SWRR (PNG)."""

from collections.abc import Sequence
from pathlib import Path

from steelyard_loadtest.dataplane.contenders import BASE, BY_NAME, CONTENDERS
from steelyard_loadtest.dataplane.report import CPU, RATIO
from steelyard_loadtest.figures.looks import looks
from steelyard_loadtest.figures.trial_figures import Summary
from steelyard_loadtest.reporting.plot_style import INK
from steelyard_loadtest.reporting.plots import Mark, Panel, RowName, RowPanel, Rule, Series, draw
from steelyard_loadtest.reporting.statistics import grouped

LOOKS = looks(CONTENDERS, all_informed=True)


def plot(file: Path, rows: Sequence[Summary]) -> None:
    """Draw the rows that have a CPU figure into a PNG file; at least one has."""
    drawn = [row for row in rows if CPU in row.metrics]
    most = max(row.level for row in drawn)
    compared = [row for row in drawn if row.level == most and RATIO in row.metrics]
    names = [RowName(text=BY_NAME[row.algorithm].title) for row in compared]
    ratios = _ratios(compared, most) if compared else Panel(series=[], empty="nginx SWRR was not measured")
    draw(
        file,
        [[_costs(drawn), ratios]],
        size=(13, 5.5),
        names=names,
        dpi=150,
        settings={"font.size": 9.5},
        width_ratios=(1.15, 1),
    )


def _costs(rows: Sequence[Summary]) -> Panel:
    costs = {
        name: [(row.level, row.metrics[CPU]) for row in own]
        for name, own in grouped(rows, lambda row: row.algorithm).items()
    }
    return Panel(
        series=[
            Series(
                x=[peers for peers, _ in points],
                y=[cost.median for _, cost in points],
                below=[cost.median - cost.lowest for _, cost in points],
                above=[cost.highest - cost.median for _, cost in points],
                label=BY_NAME[name].title,
                style=LOOKS[name].line,
            )
            for name, points in costs.items()
        ],
        title="CPU µs per request of the proxy (median, lowest, highest)",
        x_label="servers",
        x_counts=[row.level for row in rows],
        y_limits=(0, None),
        finish=lambda axes: axes.legend(fontsize=8, ncols=2),
    )


def _ratios(rows: Sequence[Summary], peers: float) -> RowPanel:
    def bar(row: Summary) -> Mark:
        ratio = row.metrics[RATIO].median
        return Mark(value=ratio, marker="bar", color=LOOKS[row.algorithm].color, text=f"{ratio:.2f}")

    return RowPanel(
        rows=[[bar(row)] for row in rows],
        title=f"CPU per request at {peers:,.0f} servers, times {BY_NAME[BASE].title}'s",
        scale="linear",
        limits=(0, None),
        rules=[Rule(at=1, axis="x", color=INK, dash="-", width=0.8)],
    )
