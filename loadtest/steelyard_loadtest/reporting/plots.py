"""Declared plots: panels of lines over one quantity, and rows of marks, one row a thing.

    draw(file, [[Panel(title="p99 (ms)", x_label="servers", series=[Series(x=x, y=y, label="nginx")])]],
         size=(9, 4), legend="outside lower center")

A panel's `finish` draws anything else with matplotlib itself (PNG files).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter

from steelyard_loadtest.reporting import plot_style
from steelyard_loadtest.reporting.plot_style import FAINT, INK, REFERENCE, Place, canvas, headline

HALO = [withStroke(linewidth=2.5, foreground="white")]
"""A text on it can be read across a line."""

Scale = Literal["linear", "log", "auto"]
Style = Mapping[str, Any]
"""Keywords of matplotlib's Axes.plot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line; None is a gap. below, above: the lengths of each point's whiskers."""

    x: Sequence[float]
    y: Sequence[float | None]
    label: str = ""
    style: Style = field(default_factory=dict)
    below: Sequence[float] | None = None
    above: Sequence[float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A line across the panel at a value of an axis, and its label."""

    at: float
    axis: Literal["x", "y"] = "y"
    text: str = ""
    color: str = REFERENCE
    dash: Any = "--"
    width: float = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lines over one quantity. y_scale auto: logarithmic if the values span decades, otherwise from 0."""

    series: Sequence[Series]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    x_counts: Sequence[float] | None = None
    """x is logarithmic, with a tick at each of these."""
    y_scale: Scale = "linear"
    x_limits: tuple[float | None, float | None] = (None, None)
    y_limits: tuple[float | None, float | None] = (None, None)
    y_percent: bool = False
    spans: Sequence[tuple[float, float, str]] = ()
    """Shaded stretches of the x axis: from, to, colour."""
    rules: Sequence[Rule] = ()
    legend: Place = ""
    """Place of the legend in the panel; "": none."""
    empty: str = "not known"
    """Text of a panel without any value."""
    finish: Callable[[Axes], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One figure in a row: a marker or a `bar`, and a line from low to high if given."""

    value: float
    color: str = INK
    marker: str = "o"
    size: float = 6.0
    hollow: bool = False
    low: float | None = None
    high: float | None = None
    width: float = 1.4
    text: str = ""
    text_color: str = "#333333"
    bold: bool = False
    alpha: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowName:
    """The name of a row."""

    text: str
    color: str = INK
    bold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPanel:
    """Marks in rows, the first row on top, one for each of the plot's names. scale auto: as in `Panel`."""

    rows: Sequence[Sequence[Mark]]
    title: str = ""
    x_label: str = ""
    scale: Scale = "auto"
    limits: tuple[float | None, float | None] = (None, None)
    rules: Sequence[Rule] = ()
    finish: Callable[[Axes], object] | None = None


def draw(
    file: Path,
    grid: Sequence[Sequence[Panel | RowPanel]],
    *,
    size: tuple[float, float],
    names: Sequence[RowName] = (),
    title: str = "",
    legend: Place = "",
    legend_columns: int = 4,
    handles: Sequence[Artist] = (),
    **options: Any,  # noqa: ANN401 - of canvas and of matplotlib's subplots
) -> None:
    """Draw panels, rows of equal length, into a PNG file.

    names: of the rows of all RowPanels. legend: place of the legend for all panels' lines, or `handles`.
    """
    with canvas(file, len(grid), len(grid[0]), figsize=size, **options) as (figure, all_axes):
        for panels, axes_row in zip(grid, all_axes, strict=True):
            named = [isinstance(panel, RowPanel) for panel in panels]
            for place, (panel, axes) in enumerate(zip(panels, axes_row, strict=True)):
                if isinstance(panel, Panel):
                    _panel(axes, panel)
                else:
                    _row_panel(axes, panel, names, named=not any(named[:place]))
                for rule in panel.rules:
                    _rule(axes, rule)
                if panel.finish is not None:
                    panel.finish(axes)
        if title:
            headline(figure, title)
        if handles:
            figure.legend(handles=list(handles), loc=legend, ncols=legend_columns, fontsize=8.5)
        elif legend:
            plot_style.legend(figure, legend, legend_columns)


def _panel(axes: Axes, panel: Panel) -> None:
    for begin, end, color in panel.spans:
        axes.axvspan(begin, end, color=color, zorder=0, linewidth=0)
    values: list[float] = []
    for series in panel.series:
        y = [math.nan if value is None else value for value in series.y]
        values += [value for value in y if not math.isnan(value)]
        if series.below is None and series.above is None:
            axes.plot(series.x, y, label=series.label or None, **series.style)
        else:
            nothing = [0.0] * len(series.x)
            whiskers = [list(series.below or nothing), list(series.above or nothing)]
            axes.errorbar(
                series.x, y, yerr=whiskers, capsize=2, elinewidth=0.8, label=series.label or None,
                **series.style,
            )  # fmt: skip
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.x_counts:
        axes.set_xscale("log")
        axes.set_xticks(
            sorted(set(panel.x_counts)), [f"{count:,.0f}" for count in sorted(set(panel.x_counts))]
        )
        axes.set_xticks([], minor=True)
    if not values and panel.empty:
        axes.text(0.5, 0.5, panel.empty, transform=axes.transAxes, ha="center", color=FAINT)
    _scale(axes, "y", panel.y_scale, values, panel.y_limits)
    if panel.y_percent:
        # As many decimals as the tick needs: idle servers use parts of a percent.
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.6g} %"))
    axes.set_xlim(*panel.x_limits)
    if panel.y_limits != (None, None):
        axes.set_ylim(*panel.y_limits)
    if panel.legend:
        axes.legend(loc=panel.legend, fontsize=8)


def _row_panel(axes: Axes, panel: RowPanel, names: Sequence[RowName], *, named: bool) -> None:
    values = []
    for place, marks in enumerate(panel.rows):
        for mark in marks:
            _mark(axes, place, mark)
            values += [value for value in (mark.value, mark.low, mark.high) if value is not None]
    axes.set(title=panel.title, xlabel=panel.x_label)
    _scale(axes, "x", panel.scale, values, panel.limits)
    if panel.limits != (None, None):
        axes.set_xlim(*panel.limits)
    axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    if named:
        axes.set_yticks(range(len(names)), [name.text for name in names])
        for label, name in zip(axes.get_yticklabels(), names, strict=True):
            label.set_color(name.color)
            label.set_fontweight("bold" if name.bold else "normal")


def _mark(axes: Axes, place: int, mark: Mark) -> None:
    ends = [mark.value if end is None else end for end in (mark.low, mark.high)]
    if mark.marker == "bar":
        axes.barh([place], [mark.value], color=mark.color, height=0.65, alpha=mark.alpha)
    if ends[0] != ends[1]:
        color = INK if mark.marker == "bar" else mark.color
        axes.plot(ends, [place, place], color=color, linewidth=mark.width, alpha=mark.alpha, zorder=2)
    if mark.marker != "bar":
        axes.plot(
            [mark.value], [place], marker=mark.marker, markersize=mark.size, linestyle="", color=mark.color,
            markerfacecolor="white" if mark.hollow else mark.color, alpha=mark.alpha, zorder=3,
        )  # fmt: skip
    if mark.text:
        axes.annotate(
            mark.text, (max(mark.value, *ends), place), xytext=(7, 0), textcoords="offset points",
            va="center", fontsize=7.5, color=mark.text_color, fontweight="bold" if mark.bold else "normal",
            path_effects=HALO, zorder=5,
        )  # fmt: skip


def _rule(axes: Axes, rule: Rule) -> None:
    (axes.axhline if rule.axis == "y" else axes.axvline)(
        rule.at, color=rule.color, linewidth=rule.width, linestyle=rule.dash, zorder=1
    )
    if rule.text:
        across = rule.axis == "y"
        axes.annotate(
            rule.text, (0.01, rule.at) if across else (rule.at, 0.02),
            xycoords=("axes fraction", "data") if across else ("data", "axes fraction"),
            xytext=(0, 3) if across else (-4, 0), textcoords="offset points",
            ha="left" if across else "right", color=rule.color, fontsize=8.5,
        )  # fmt: skip


def _scale(
    axes: Axes,
    which: Literal["x", "y"],
    scale: Scale,
    values: Sequence[float],
    limits: tuple[float | None, float | None],
) -> None:
    positive = [value for value in values if value > 0]
    if positive and (scale == "log" or (scale == "auto" and plot_style.spans_decades(values))):
        plot_style.log_scale(axes, which, [*positive, *(limit for limit in limits if limit)])
        return
    if scale == "auto":
        axes.set_xlim(left=0) if which == "x" else axes.set_ylim(bottom=0)
    plot_style.plain_numbers(axes.xaxis if which == "x" else axes.yaxis)
