"""The headline as a plot: our p99 over the best online peer's, a dot a scenario and level
(matplotlib, a PNG file).
"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from steelyard_loadtest.lab.algorithms import DEFAULT
from steelyard_loadtest.lab.figures.verdict import Rival, Verdict
from steelyard_loadtest.lab.report import wording
from steelyard_loadtest.lab.report.palette import LOOKS, PROGRAM_COLORS, TOLD_COLORS
from steelyard_loadtest.lab.report.plots.canvas import canvas, log_scale
from steelyard_loadtest.lab.report.view import View

MET, MISSED = PROGRAM_COLORS["nginx"][0], LOOKS[DEFAULT].color


def draw(file: Path, views: Sequence[View]) -> bool:
    """Draw the ratios that there are; False, and no file, when there is none."""
    rows = [
        (f"{view.scenario.name}, {wording.level(view.scenario.load, verdict.level)}", verdict)
        for view in views
        for verdict in view.verdicts
        if verdict.online and verdict.online.ratio
    ]
    if not rows:
        return False
    with canvas(file, 1, 1, figsize=(8.8, 1.3 + 0.3 * len(rows))) as (_, grid):
        axes = grid[0][0]
        for position, (_, verdict) in enumerate(rows):
            _row(axes, position, verdict)
        ratios = [ratio for _, verdict in rows for ratio in _ratios(verdict)]
        log_scale(axes, "x", [min(0.5, *ratios), max(2.0, *ratios)])
        axes.set_xlim(min(0.5, *ratios) / 1.15, max(2.0, *ratios) * 4)  # room for the longest name
        axes.axvline(1, color="#222222", linewidth=1)
        axes.set_yticks(range(len(rows)), [name for name, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set_title("p99 of Steelyard's default over the best online peer's: left of 1 is better")
        axes.set_xlabel("ratio of p99 (grey: over the best that was told the weights)")
    return True


def _row(axes: Axes, position: int, verdict: Verdict) -> None:
    online = verdict.online
    if online is None or online.ratio is None:
        return
    if verdict.told and verdict.told.ratio:
        axes.plot([verdict.told.ratio], [position], marker="o", markersize=6, markerfacecolor="white",
                  markeredgecolor=TOLD_COLORS[1], zorder=2)  # fmt: skip
    met = verdict.standing == "met"
    axes.plot([1, online.ratio], [position] * 2, color=MET if met else MISSED, linewidth=2, zorder=2)
    axes.plot([online.ratio], [position], marker="o" if met else "X", markersize=8,
              color=MET if met else MISSED, zorder=3)  # fmt: skip
    axes.annotate(
        f"{wording.ratio(online.ratio)} × {_short(online)}",
        (max(1.0, *_ratios(verdict)), position),
        xytext=(9, 0),
        textcoords="offset points",
        va="center",
        fontsize=7.5,
    )


def _short(rival: Rival) -> str:
    return wording.title(rival.algorithm) + (", within the noise" if rival.within_noise else "")


def _ratios(verdict: Verdict) -> list[float]:
    return [rival.ratio for rival in (verdict.online, verdict.told) if rival and rival.ratio]
