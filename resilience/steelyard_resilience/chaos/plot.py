"""Draws what each fault cost beside its bound (a PNG file)."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from steelyard_loadtest.reporting.plot_style import BLUE, FAINT, INK, ORANGE
from steelyard_loadtest.reporting.plots import Mark, RowName, RowPanel, draw
from steelyard_loadtest.reporting.statistics import grouped

from steelyard_resilience.chaos.fault import Outcome

KEPT, BROKEN = BLUE, ORANGE
ROW_IN, HEAD_IN = 0.19, 1.5
LEAST_S = 0.05
"""Where the scales begin: less is drawn there. A look is a tenth of a second from the next."""
LEAST_BOUND_MS = 5.0


def plot(file: Path, outcomes: Sequence[Outcome]) -> None:
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
