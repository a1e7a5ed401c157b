"""p99 as rows of dots, one for each algorithm, best first (PNG files)."""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.ticker import MaxNLocator

from steelyard_loadtest.compare.page import scenario_text
from steelyard_loadtest.compare.page.scenario_text import LOOKS
from steelyard_loadtest.compare.page.view import View, shown_levels
from steelyard_loadtest.figures.trial_figures import Summary
from steelyard_loadtest.figures.verdict import FAILURES_AT_MOST
from steelyard_loadtest.reporting import wording
from steelyard_loadtest.reporting.plot_style import FAINT, INK, spans_decades
from steelyard_loadtest.reporting.plots import Mark, RowName, RowPanel, Rule, draw
from steelyard_loadtest.scenario.algorithms import BY_NAME, DEFAULT

ROW_IN = 0.24
PANEL_IN = {1: 5.2, 2: 3.8, 3: 3.2, 4: 2.9}
NAMES_IN = 2.9
TICKS = 4
"""With more panels, labels of five digits touch."""

FAILED = "#AA0000"

MARGIN_IN = 0.5
"""The part of a panel's width that is between it and the next one."""

CHARACTER_IN, BEFORE_IN = 0.06, 0.15
"""Mean width of a character of 7.5 points, and the distance of a text from its dot."""


def draw_p99(file: Path, view: View) -> bool:
    """Draw a panel a level; False, and no file, when no p99 is known."""
    levels = [level for level in shown_levels(view.levels) if _ends(view.at(level))]
    names = _best_first(view, levels)
    if not names:
        return False
    size = (NAMES_IN + PANEL_IN[len(levels)] * len(levels), 0.9 + ROW_IN * len(names))
    panels = [_panel(view, level, names, PANEL_IN[len(levels)] - MARGIN_IN) for level in levels]
    draw(file, [panels], size=size, names=[_name(name) for name in names], sharey=True)
    return True


def _panel(view: View, level: float, names: Sequence[str], width_in: float) -> RowPanel:
    values = _ends(view.at(level))
    lowest, highest = min(values), max(values)
    log = spans_decades(values)
    own = view.spread(DEFAULT, level, "p99_ms")
    rows = [_marks(view.find(name, level), lowest) for name in names]
    return RowPanel(
        rows=rows,
        title=scenario_text.level(view.scenario.load, level),
        x_label="p99 latency (ms)",
        scale="log" if log else "linear",
        limits=limits([mark for row in rows for mark in row], lowest if log else 0, highest, width_in),
        rules=[Rule(at=own.median, axis="x", color=LOOKS[DEFAULT].color, dash="-", width=0.8)] if own else [],
        finish=None if log else lambda axes: axes.xaxis.set_major_locator(MaxNLocator(TICKS)),
    )


def limits(marks: Sequence[Mark], lowest: float, highest: float, width_in: float) -> tuple[float, float]:
    """Return an axis's ends with room for the texts at the right of the marks.

    lowest: 0 for a linear axis, and otherwise the smallest value of a logarithmic one.
    """
    begin = math.log(lowest / 1.25) if lowest else 0.0

    def place(value: float) -> float:
        return math.log(value) if lowest else value

    ends = [place(highest) + 0.05 * (place(highest) - begin)]
    for mark in marks:
        text_in = len(mark.text) * CHARACTER_IN + BEFORE_IN
        right = place(mark.value if mark.high is None else mark.high)
        ends.append(begin + (right - begin) / (1 - min(text_in / width_in, 0.8)))
    return (lowest / 1.25, math.exp(max(ends))) if lowest else (0.0, max(ends))


def _marks(summary: Summary | None, lowest: float) -> list[Mark]:
    if summary is None:
        return []
    p99_ms = summary.metrics.get("p99_ms")
    if p99_ms is None:
        failed = _failed(summary)
        remark = f"{failed} failed" if failed else "fewer than 100 answers"
        return [Mark(value=lowest, marker="", text=remark, text_color=FAILED)]
    look, failed, default = LOOKS[summary.algorithm], _failed(summary), summary.algorithm == DEFAULT
    return [
        Mark(
            value=p99_ms.median,
            low=p99_ms.lowest,
            high=p99_ms.highest,
            color=look.color,
            marker=look.marker,
            size=look.marker_size,
            hollow=look.hollow,
            width=2.4 if default else 1.4,
            text=scenario_text.with_sigma(p99_ms) + (f"  † {failed}" if failed else ""),
            text_color=FAILED if failed else "#333333",
            bold=default,
        )
    ]


def _failed(summary: Summary) -> str:
    failed = summary.failures_part > FAILURES_AT_MOST
    return wording.small_percent(summary.failures_part) if failed else ""


def _name(name: str) -> RowName:
    known = BY_NAME[name]
    text = scenario_text.title(name) + (" (given weights)" if known.informed else "")
    if known.ours:
        return RowName(text=text, color="#B04A00", bold=name == DEFAULT)
    return RowName(text=text, color=FAINT if known.informed else INK)


def _best_first(view: View, levels: Sequence[float]) -> list[str]:
    """By the mean of the logarithms, in which each level counts alike."""
    scores = {}
    for name in view.algorithms:
        known = [spread.median for level in levels if (spread := view.spread(name, level, "p99_ms"))]
        scores[name] = sum(map(math.log, (max(ms, 1e-6) for ms in known))) / len(known) if known else math.inf
    return sorted(scores, key=scores.__getitem__) if levels else []


def _ends(summaries: Sequence[Summary]) -> list[float]:
    spreads = [entry.metrics["p99_ms"] for entry in summaries if "p99_ms" in entry.metrics]
    return [value for spread in spreads for value in (spread.lowest, spread.highest)]
