"""Draws what each fault cost beside what it may cost: a row a fault (matplotlib, a PNG file)."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from steelyard_loadtest.chaos.model import Outcome
from steelyard_loadtest.chaos.table import groups
from steelyard_loadtest.lab.report.plots.canvas import canvas, log_scale

# Okabe and Ito's palette, which the colour-blind can tell apart; the marker differs too.
KEPT, BROKEN, BOUND = "#0072B2", "#D55E00", "#777777"
BAND = "#E9E9E9"
ROW_IN, HEAD_IN = 0.19, 1.5
LEAST_MS, LEAST_S = 5.0, 0.05
"""Where the scales begin: less is drawn there. A look is a tenth of a second from the next."""

Row = Outcome | str
"""A fault's outcome, or the name of the group that follows."""


def draw(file: Path, outcomes: Sequence[Outcome]) -> None:
    """Draw at least one outcome."""
    rows: list[Row] = []
    for group in groups(outcomes):
        rows += [group, *(outcome for outcome in outcomes if outcome.group == group)]
    size = (13.0, HEAD_IN + ROW_IN * len(rows))
    with canvas(file, 1, 3, figsize=size, sharey=True, width_ratios=(5, 5, 1.6)) as (figure, grid):
        slowest, recovery, lost = grid[0]
        _panel(slowest, rows, lambda one: one.worst_ms, lambda one: one.bound.worst_ms, LEAST_MS)
        slowest.set_xlabel("slowest answer (ms)")
        _panel(recovery, rows, lambda one: one.recover_s, lambda one: one.bound.recover_s, LEAST_S)
        recovery.set_xlabel("until all is well again (s)")
        _lost(lost, rows)
        _names(slowest, rows)
        handles = [
            Line2D([], [], color=KEPT, marker="o", linestyle="", label="measured, bound kept"),
            Line2D([], [], color=BROKEN, marker="X", linestyle="", label="measured, bound broken"),
            Line2D([], [], color=BOUND, marker="|", markersize=9, linestyle="", label="bound"),
        ]
        figure.legend(handles=handles, loc="outside upper right", ncols=3)
        broken = sum(not outcome.passed for outcome in outcomes)
        verdict = f"{broken} broke a bound" if broken else "all bounds kept"
        figure.suptitle(
            f"{len(outcomes)} faults, {verdict}", fontsize=12, fontweight="bold", x=0.01, ha="left"
        )


def _panel(
    axes: Axes,
    rows: Sequence[Row],
    measured: Callable[[Outcome], float | None],
    bound: Callable[[Outcome], float],
    least: float,
) -> None:
    values = [least]
    for place, row in enumerate(rows):
        if isinstance(row, str):
            continue
        most, value = max(bound(row), least), measured(row)
        values.append(most)
        axes.plot([most], [place], marker="|", markersize=9, markeredgewidth=1.6, color=BOUND, zorder=2)
        if value is None:
            continue
        shown = max(value, least)
        values.append(shown)
        kept = value <= bound(row)
        color, marker, size = (KEPT, "o", 5) if kept else (BROKEN, "X", 7)
        axes.plot([shown, most], [place, place], color=color, linewidth=0.8, alpha=0.5, zorder=1)
        axes.plot([shown], [place], marker=marker, markersize=size, color=color, zorder=3)
    log_scale(axes, "x", values)
    axes.set_xlim(least / 1.3, max(values) * 1.6)
    _bands(axes, rows)


def _lost(axes: Axes, rows: Sequence[Row]) -> None:
    axes.set_xlabel("failed of sent")
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    for place, row in enumerate(rows):
        if isinstance(row, str):
            continue
        kept = row.failed <= row.bound.failed
        text = f"{row.failed:,} of {row.sent:,}" + (f" (≤ {row.bound.failed:,})" if row.bound.failed else "")
        color = BROKEN if not kept else "#222222" if row.failed else "#999999"
        weight = "bold" if row.failed else "normal"
        axes.text(0.04, place, text, va="center", fontsize=7.5, color=color, fontweight=weight)
        if not row.passed:
            axes.text(1, place, "✗", va="center", ha="right", fontsize=9, color=BROKEN, fontweight="bold")
    _bands(axes, rows)


def _bands(axes: Axes, rows: Sequence[Row]) -> None:
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    for place, row in enumerate(rows):
        if isinstance(row, str):
            axes.axhspan(place - 0.5, place + 0.5, color=BAND, zorder=0, linewidth=0)


def _names(axes: Axes, rows: Sequence[Row]) -> None:
    axes.set_yticks(range(len(rows)), [row if isinstance(row, str) else row.fault for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontsize(8)
        if isinstance(row, str):
            label.set_fontweight("bold")
        elif not row.passed:
            label.set_color(BROKEN)
