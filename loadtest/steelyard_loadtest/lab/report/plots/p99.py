"""The one-glance summary: p99 of every algorithm, best first (matplotlib, a PNG file)."""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from steelyard_loadtest.lab.algorithms import BY_NAME, DEFAULT
from steelyard_loadtest.lab.figures.summary import Summary
from steelyard_loadtest.lab.figures.verdict import FAILURES_AT_MOST
from steelyard_loadtest.lab.report import choice, wording
from steelyard_loadtest.lab.report.palette import LOOKS
from steelyard_loadtest.lab.report.plots.canvas import canvas, dots, log_scale, plain_numbers, spans_decades
from steelyard_loadtest.lab.report.view import View

ROW_IN = 0.24
PANEL_IN = {1: 5.2, 2: 3.8, 3: 3.2, 4: 2.9}
NAMES_IN = 2.9
TICKS = 4
"""Labels of five digits touch where there are more."""


def draw(file: Path, view: View) -> bool:
    """Draw one panel a level; False, and no file, when no p99 is known."""
    levels = [level for level in choice.levels(view.levels) if _values(view.at(level))]
    names = _order(view, levels)
    if not names:
        return False
    size = (NAMES_IN + PANEL_IN[len(levels)] * len(levels), 0.9 + ROW_IN * len(names))
    with canvas(file, 1, len(levels), figsize=size, sharey=True) as (_, grid):
        for axes, level in zip(grid[0], levels, strict=True):
            _panel(axes, view, level, names)
        _names(grid[0][0], names)
    return True


def _panel(axes: Axes, view: View, level: float, names: Sequence[str]) -> None:
    values = _values(view.at(level))
    for position, name in enumerate(names):
        summary = view.find(name, level)
        if summary:
            _row(axes, position, summary)
    own = view.spread(DEFAULT, level, "p99_ms")
    if own:
        axes.axvline(own.median, color=LOOKS[DEFAULT].color, linewidth=1, alpha=0.6, zorder=1)
    if spans_decades(values):
        log_scale(axes, "x", values)
        # Room for the figures at the right of the dots.
        axes.set_xlim(min(values) / 1.25, max(values) * (max(values) / min(values)) ** 0.35)
    else:
        axes.set_xlim(0, max(values) * 1.45)
        axes.xaxis.set_major_locator(MaxNLocator(TICKS))
        plain_numbers(axes.xaxis)
    axes.set_xlabel("p99 latency (ms)")
    axes.set_title(wording.level(view.scenario.load, level))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _row(axes: Axes, position: int, summary: Summary) -> None:
    look = LOOKS[summary.algorithm]
    p99_ms = summary.metrics.get("p99_ms")
    failed = summary.failures_part > FAILURES_AT_MOST
    note = f"{wording.percent(summary.failures_part)} failed" if failed else ""
    if p99_ms is None:
        axes.annotate(note or "fewer than 100 answers", (0.02, position), xycoords=("axes fraction", "data"),
                      va="center", fontsize=7.5, color="#AA0000")  # fmt: skip
        return
    width = 2.4 if summary.algorithm == DEFAULT else 1.4
    axes.plot([p99_ms.lowest, p99_ms.highest], [position] * 2, color=look.color, linewidth=width, zorder=2)
    axes.plot([p99_ms.median], [position], linestyle="", **dots(summary.algorithm))
    text = wording.with_sigma(p99_ms) + (f"  † {note}" if note else "")
    axes.annotate(
        text,
        (p99_ms.highest, position),
        xytext=(7, 0),
        textcoords="offset points",
        va="center",
        fontsize=7.5,
        fontweight="bold" if summary.algorithm == DEFAULT else "normal",
        color="#AA0000" if failed else "#333333",
    )


def _names(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [_name(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        label.set_color("#777777" if BY_NAME[name].told else "#222222")
        if BY_NAME[name].ours:
            label.set_color("#B04A00")
            label.set_fontweight("bold" if name == DEFAULT else "normal")


def _name(name: str) -> str:
    return wording.title(name) + (" (told)" if BY_NAME[name].told else "")


def _order(view: View, levels: Sequence[float]) -> list[str]:
    """The best first: by the mean of the logarithms, in which each level counts alike."""
    scores = {}
    for name in view.algorithms:
        known = [spread.median for level in levels if (spread := view.spread(name, level, "p99_ms"))]
        scores[name] = sum(map(math.log, (max(ms, 1e-6) for ms in known))) / len(known) if known else math.inf
    return sorted(scores, key=scores.__getitem__) if levels else []


def _values(found: Sequence[Summary]) -> list[float]:
    spreads = [entry.metrics["p99_ms"] for entry in found if "p99_ms" in entry.metrics]
    return [value for spread in spreads for value in (spread.lowest, spread.highest)]
