"""Draws what each fault cost beside its bound, and the whole run over time, in strips (PNG files)."""

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator
from steelyard_loadtest.generators.tally import Request
from steelyard_loadtest.reporting.plot_style import (
    BLUE,
    FAINT,
    INK,
    ORANGE,
    SHORT_DASH,
    YELLOW,
    canvas,
    gaps,
    headline,
    log_scale,
)
from steelyard_loadtest.reporting.plots import Mark, RowName, RowPanel, draw
from steelyard_loadtest.reporting.statistics import grouped

from steelyard_resilience.chaos.fault import Gathered, Look, Outcome, Trial

KEPT, BROKEN = BLUE, ORANGE
ROW_IN, HEAD_IN = 0.19, 1.5
LEAST_S = 0.05
"""Where the scales begin: less is drawn there. A look is a tenth of a second from the next."""
LEAST_BOUND_MS = 5.0

SHADE, BROKEN_SHADE = "#EFEFEF", "#F6DDCC"
LEAST_MS, MOST_MS = 1.0, 10_000.0
HEADROOM = 30.0
"""Times the longest latency: names of three lines stand above it."""
FAILURES_AT_MS = MOST_MS * 1.5
UNWELL_AT_MS = [LEAST_MS * 1.15] * 2
WIDTH_IN, STRIP_IN = 14.0, 1.75
LETTERS_PER_IN = 17
"""Of the names' type."""

TENTHS_PER_S = 10

MOST_STRIPS, LEAST_STRIP_S = 9, 60.0
"""More strips are no glance any more; a shorter one would stretch a second over a hand's breadth."""

GAP_S = 1.0
"""Looks further apart are of different stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenth:
    """Requests due within a tenth of a second from from_s on; worst_ms: None when none was answered."""

    from_s: float
    worst_ms: float | None
    failed: int


def draw_bounds(file: Path, outcomes: Sequence[Outcome]) -> None:
    """Draw what each fault cost beside what it may cost, a row a fault; there is one outcome at least."""
    rows: list[Outcome | str] = []
    for group, own in grouped(outcomes, lambda one: one.group).items():
        rows += [group, *own]
    broken = sum(not outcome.passed for outcome in outcomes)
    draw(
        file,
        [[
            _measured(
                rows, "slowest answer (ms)", lambda one: (one.worst_ms, one.bound.worst_ms), LEAST_BOUND_MS
            ),
            _measured(
                rows, "until all is well again (s)", lambda one: (one.recover_s, one.bound.recover_s), LEAST_S
            ),
            RowPanel(
                rows=[_lost(row) for row in rows], x_label="failed of sent", scale="linear", limits=(0, 1),
                finish=_without_scale,
            ),
        ]],
        size=(13.0, HEAD_IN + ROW_IN * len(rows)),
        names=[
            RowName(text=row, heading=True) if isinstance(row, str)
            else RowName(text=row.fault, color=INK if row.passed else BROKEN)
            for row in rows
        ],
        title=f"{len(outcomes)} faults, {f'{broken} broke a bound' if broken else 'all bounds kept'}",
        legend="outside upper right",
        legend_columns=3,
        handles=[
            Line2D([], [], color=KEPT, marker="o", linestyle="", label="measured, bound kept"),
            Line2D([], [], color=BROKEN, marker="X", linestyle="", label="measured, bound broken"),
            Line2D([], [], color=FAINT, marker="|", markersize=9, linestyle="", label="bound"),
        ],
        sharey=True,
        width_ratios=(5, 5, 1.6),
    )  # fmt: skip


def _measured(
    rows: Sequence[Outcome | str],
    label: str,
    figures: Callable[[Outcome], tuple[float | None, float]],
    least: float,
) -> RowPanel:
    def marks(row: Outcome | str) -> list[Mark]:
        if isinstance(row, str):
            return []
        value, bound = figures(row)
        most = max(bound, least)
        drawn = [Mark(value=most, color=FAINT, marker="|", size=9)]
        if value is not None:
            shown = max(value, least)
            color, marker, size = (KEPT, "o", 5.0) if value <= bound else (BROKEN, "X", 7.0)
            drawn.append(
                Mark(value=shown, color=color, marker=marker, size=size, low=shown, high=most, width=0.5)
            )
        return drawn

    made = [marks(row) for row in rows]
    highest = max(mark.value for row in made for mark in row)
    return RowPanel(rows=made, x_label=label, scale="log", limits=(least / 1.3, highest * 1.6))


def _lost(row: Outcome | str) -> list[Mark]:
    if isinstance(row, str):
        return []
    may = f" (≤ {row.bound.failed:,})" if row.bound.failed else ""
    kept = row.failed <= row.bound.failed
    color = BROKEN if not kept else INK if row.failed else "#999999"
    text = f"{row.failed:,} of {row.sent:,}{may}"
    counted = Mark(value=0, size=0, text=text, text_color=color, bold=bool(row.failed))
    cross = Mark(value=0.8, size=0, text="✗", text_color=BROKEN, bold=True)
    return [counted] if row.passed else [counted, cross]


def _without_scale(axes: Axes) -> None:
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)


def draw_timeline(file: Path, gathered: Gathered) -> None:
    """Draw the run over time: the slowest answers, the failures, the faults; it has one request at least."""
    zero_s = gathered.first_s
    points = tenths(gathered.requests, zero_s)
    count, strip_s = strips(points[-1].from_s + 1 / TENTHS_PER_S)
    unwell = not_well(gathered.looks, zero_s)
    with canvas(file, count, 1, figsize=(WIDTH_IN, 0.9 + STRIP_IN * count)) as (figure, grid):
        for number, (axes,) in enumerate(grid):
            from_s = number * strip_s
            log_scale(axes, "y", (LEAST_MS, MOST_MS))
            axes.set(
                ylim=(LEAST_MS, MOST_MS * HEADROOM), yticks=[1, 10, 100, 1000, 10_000],
                xlim=(from_s, from_s + strip_s),
            )  # fmt: skip
            axes.minorticks_off()
            axes.xaxis.set_major_locator(MultipleLocator(10))
            axes.grid(visible=False, axis="x")
            for trial, outcome in zip(gathered.trials, gathered.outcomes, strict=True):
                _fault(axes, trial, outcome, zero_s, strip_s)
            _requests(axes, [point for point in points if from_s <= point.from_s < from_s + strip_s])
            for span in unwell:
                axes.plot(span, UNWELL_AT_MS, color=YELLOW, linewidth=4, solid_capstyle="butt")
        grid[-1][0].set_xlabel("time since the first request (s)")
        handles = [
            Line2D([], [], color=BLUE, label="slowest answer in a tenth of a second"),
            Line2D([], [], color=ORANGE, marker="X", linestyle="", label="a request failed"),
            Line2D([], [], color=YELLOW, linewidth=4, label="not all is well"),
            Patch(color=SHADE, label="a fault, until 1 s after recovery"),
            Patch(color=BROKEN_SHADE, label="one that broke a bound"),
        ]
        figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))
        figure.supylabel("latency (ms)", fontsize=9)
        headline(figure, "The run")


def _fault(axes: Axes, trial: Trial, outcome: Outcome, zero_s: float, strip_s: float) -> None:
    left_s, right_s = axes.get_xlim()
    begin_s, end_s = trial.began_s - zero_s, trial.until_s - zero_s
    if end_s <= left_s or begin_s >= right_s:
        return
    axes.axvspan(begin_s, end_s, color=SHADE if outcome.passed else BROKEN_SHADE, zorder=0, linewidth=0)
    # Where it was done, and where it was undone.
    for moment_s in {trial.began_s, trial.undone_s}:
        axes.axvline(moment_s - zero_s, color="#888888", linewidth=0.6, linestyle=SHORT_DASH, zorder=1)
    shown_s = max(begin_s, left_s)
    here_s = min(end_s, right_s) - shown_s
    if here_s < (end_s - begin_s) / 2:
        return  # it is named in the strip that has more of it
    letters = max(int(here_s * (WIDTH_IN - 0.6) / strip_s * LETTERS_PER_IN), 8)
    name = textwrap.fill(outcome.fault, letters, max_lines=4, placeholder=" …", break_long_words=False)
    color = INK if outcome.passed else ORANGE
    axes.text(
        shown_s + 0.15, MOST_MS * HEADROOM * 0.8, name, fontsize=6.5, va="top", color=color, clip_on=True
    )


def _requests(axes: Axes, points: Sequence[Tenth]) -> None:
    # Where nothing was sent, or nothing answered, there is no line.
    times, values = gaps(
        [point.from_s for point in points],
        [None if point.worst_ms is None else max(point.worst_ms, LEAST_MS) for point in points],
        1.5 / TENTHS_PER_S,
    )
    axes.plot(times, values, color=BLUE, linewidth=0.7, zorder=3)
    lost = [point.from_s for point in points if point.failed]
    axes.plot(
        lost, [FAILURES_AT_MS] * len(lost), color=ORANGE, marker="X", markersize=4, linestyle="", zorder=4
    )


def tenths(requests: Iterable[Request], zero_s: float) -> list[Tenth]:
    """Return every tenth in which a request was due, in order, with seconds counted from zero_s."""
    due = grouped(requests, lambda one: math.floor((one.due_s - zero_s) * TENTHS_PER_S))
    return [
        Tenth(
            from_s=number / TENTHS_PER_S,
            worst_ms=max((one.latency_ms for one in own if not one.failure), default=None),
            failed=sum(bool(one.failure) for one in own),
        )
        for number, own in sorted(due.items())
    ]


def not_well(looks: Sequence[Look], zero_s: float) -> list[tuple[float, float]]:
    """Return from when to when all was not well; looks in order."""
    spans: list[tuple[float, float]] = []
    for look, following in zip_longest(looks, looks[1:]):
        if look.not_well:
            begin_s = end_s = look.at_s - zero_s
            if following and following.at_s - look.at_s <= GAP_S:
                end_s = following.at_s - zero_s
            if spans and spans[-1][1] == begin_s:
                begin_s, _ = spans.pop()
            spans.append((begin_s, end_s))
    return spans


def strips(length_s: float) -> tuple[int, float]:
    """Return into how many strips a run is cut, and how long each is; a single one is as long as the run."""
    strip_s = max(math.ceil(length_s / MOST_STRIPS / 10) * 10.0, LEAST_STRIP_S)
    count = max(math.ceil(length_s / strip_s), 1)
    return count, strip_s if count > 1 else length_s
