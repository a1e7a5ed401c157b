"""Draws the whole run over time, in strips: the slowest answers, the failures, the faults
(matplotlib, a PNG file).
"""

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator

from steelyard_loadtest.chaos.files import first_s
from steelyard_loadtest.chaos.model import Outcome
from steelyard_loadtest.chaos.records import Gathered, Trial
from steelyard_loadtest.chaos.tenths import TENTHS_PER_S, Tenth, not_well, strips, tenths
from steelyard_loadtest.lab.report.plots.canvas import canvas, log_scale

# Okabe and Ito's palette; failures differ by their marker too.
LATENCY, FAILED, SHADE, BROKEN_SHADE, UNWELL = "#0072B2", "#D55E00", "#EFEFEF", "#F6DDCC", "#E69F00"
LEAST_MS, MOST_MS = 1.0, 10_000.0
HEADROOM = 30.0
"""Times the longest latency: names of three lines stand above it."""
FAILURES_AT_MS = MOST_MS * 1.5
UNWELL_AT_MS = [LEAST_MS * 1.15] * 2
WIDTH_IN, STRIP_IN = 14.0, 1.75
LETTERS_PER_IN = 17
"""Of the names' type."""
LINES = 4


def draw(file: Path, gathered: Gathered) -> None:
    """Draw the run; it has at least one request."""
    zero_s = first_s(gathered.requests)
    points = tenths(gathered.requests, zero_s)
    count, strip_s = strips(points[-1].from_s + 1 / TENTHS_PER_S)
    unwell = not_well(gathered.looks, zero_s)
    with canvas(file, count, 1, figsize=(WIDTH_IN, 0.9 + STRIP_IN * count)) as (figure, grid):
        for number, (axes,) in enumerate(grid):
            from_s = number * strip_s
            _scales(axes, from_s, strip_s)
            _faults(axes, gathered, zero_s, strip_s)
            _requests(axes, [point for point in points if from_s <= point.from_s < from_s + strip_s])
            for span in unwell:
                axes.plot(span, UNWELL_AT_MS, color=UNWELL, linewidth=4, solid_capstyle="butt")
        grid[-1][0].set_xlabel("time since the first request (s)")
        handles = [
            Line2D([], [], color=LATENCY, label="slowest answer in a tenth of a second"),
            Line2D([], [], color=FAILED, marker="X", linestyle="", label="a request failed"),
            Line2D([], [], color=UNWELL, linewidth=4, label="not all is well"),
            Patch(color=SHADE, label="a fault, until 1 s after recovery"),
            Patch(color=BROKEN_SHADE, label="one that broke a bound"),
        ]
        figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))
        figure.supylabel("latency (ms)", fontsize=9)
        figure.suptitle("The run", fontsize=12, fontweight="bold", x=0.01, ha="left")


def _scales(axes: Axes, from_s: float, strip_s: float) -> None:
    log_scale(axes, "y", (LEAST_MS, MOST_MS))
    axes.set_ylim(LEAST_MS, MOST_MS * HEADROOM)
    axes.set_yticks([1, 10, 100, 1000, 10_000])
    axes.minorticks_off()
    axes.set_xlim(from_s, from_s + strip_s)
    axes.xaxis.set_major_locator(MultipleLocator(10))
    axes.grid(visible=False, axis="x")


def _faults(axes: Axes, gathered: Gathered, zero_s: float, strip_s: float) -> None:
    per_s = (WIDTH_IN - 0.6) / strip_s
    left_s, right_s = axes.get_xlim()
    for trial, outcome in zip(gathered.trials, gathered.outcomes, strict=True):
        begin_s, end_s = trial.began_s - zero_s, trial.until_s - zero_s
        if end_s <= left_s or begin_s >= right_s:
            continue
        axes.axvspan(begin_s, end_s, color=SHADE if outcome.passed else BROKEN_SHADE, zorder=0, linewidth=0)
        _held(axes, trial, zero_s)
        shown_s = max(begin_s, left_s)
        here_s = min(end_s, right_s) - shown_s
        if here_s < (end_s - begin_s) / 2:
            continue  # it is named in the strip that has more of it
        axes.text(
            shown_s + 0.15,
            MOST_MS * HEADROOM * 0.8,
            _wrapped(outcome, here_s * per_s),
            fontsize=6.5,
            va="top",
            color="#222222" if outcome.passed else FAILED,
            clip_on=True,
        )


def _held(axes: Axes, trial: Trial, zero_s: float) -> None:
    # Where it was done, and where it was undone.
    for moment_s in {trial.began_s, trial.undone_s}:
        axes.axvline(moment_s - zero_s, color="#888888", linewidth=0.6, linestyle=(0, (2, 2)), zorder=1)


def _wrapped(outcome: Outcome, width_in: float) -> str:
    letters = max(int(width_in * LETTERS_PER_IN), 8)
    return textwrap.fill(outcome.fault, letters, max_lines=LINES, placeholder=" …", break_long_words=False)


def _requests(axes: Axes, points: Sequence[Tenth]) -> None:
    times: list[float] = []
    values: list[float] = []
    for before, point in pairwise([None, *points]):
        # Where nothing was sent, or nothing answered, there is no line.
        if point is None:
            continue
        if before is not None and point.from_s - before.from_s > 1.5 / TENTHS_PER_S:
            times.append(point.from_s)
            values.append(float("nan"))
        times.append(point.from_s)
        values.append(float("nan") if point.worst_ms is None else max(point.worst_ms, LEAST_MS))
    axes.plot(times, values, color=LATENCY, linewidth=0.7, zorder=3)
    lost = [point.from_s for point in points if point.failed]
    axes.plot(
        lost, [FAILURES_AT_MS] * len(lost), color=FAILED, marker="X", markersize=4, linestyle="", zorder=4
    )
