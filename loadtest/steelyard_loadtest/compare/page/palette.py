"""One look an algorithm, the same in every plot. Pure.

A hue is a program's (Okabe and Ito's, which the colour-blind can tell apart); ours are
the warm ones, a shade a law, which it brings, and a marker a picker. Grey, hollow and dashed is an
algorithm that was told the servers' weights: not a peer, but what a peer would have
to know.
"""

from dataclasses import dataclass
from typing import Any

from steelyard_controller import laws

from steelyard_loadtest.reporting.plot_style import MARKERS
from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.scenario.algorithms import ALGORITHMS, DEFAULT, PICKERS, Algorithm

Dash = str | tuple[int, tuple[float, ...]]

PROGRAM_COLORS = {
    "direct": ("#000000",),
    "nginx": ("#0072B2", "#56B4E9", "#0B2F66", "#7C93D1"),
    "haproxy": ("#009E73", "#00563F", "#6CC7A1", "#A6C84C"),
    "envoy": ("#CC79A7", "#7B3294", "#E3A8CE"),
}
TOLD_COLORS = ("#4D4D4D", "#8C8C8C", "#B5B5B5")
DASHES: tuple[Dash, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)))
TOLD_DASH: Dash = (0, (3, 2))
TCP_MARKER = "8"
FURTHER_MARKER = "<"
"""Of a law that has indicators beside the four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How an algorithm is drawn; hollow markers have the colour as their edge."""

    color: str
    marker: str
    dash: Dash
    width: float
    hollow: bool
    above: int
    """Which lines it is drawn over: higher is nearer to the eye."""

    @property
    def line(self) -> dict[str, Any]:
        """Return the keywords of matplotlib's Axes.plot for its bare line."""
        return {"color": self.color, "linestyle": self.dash, "linewidth": self.width, "zorder": self.above}

    @property
    def dots(self) -> dict[str, Any]:
        """Return the keywords of Axes.plot for its markers."""
        return {
            "marker": self.marker,
            "markersize": self.marker_size,
            "markerfacecolor": "white" if self.hollow else self.color,
            "markeredgecolor": self.color,
        }

    @property
    def marker_size(self) -> float:
        """Return the size of its markers."""
        return 7 if self.width > 2 else 5.5


def _looks() -> dict[str, Look]:
    families = grouped(ALGORITHMS, lambda algorithm: "told" if algorithm.told else algorithm.program)
    return {
        algorithm.name: _ours(algorithm) if algorithm.ours else _theirs(algorithm, position)
        for family in families.values()
        for position, algorithm in enumerate(family)
    }


def _ours(algorithm: Algorithm) -> Look:
    default = algorithm.name == DEFAULT
    law = laws.NAMES.index(algorithm.law)
    marker = FURTHER_MARKER if algorithm.indicators else MARKERS[PICKERS.index(algorithm.method)]
    return Look(
        color=laws.presentation_of(algorithm.law).color,
        marker=TCP_MARKER if algorithm.mode == "tcp" else marker,
        dash="-" if law == 0 else DASHES[law % len(DASHES)],
        width=3.0 if default else 1.8,
        hollow=False,
        above=6 if default else 5,
    )


def _theirs(algorithm: Algorithm, position: int) -> Look:
    colors = TOLD_COLORS if algorithm.told else PROGRAM_COLORS[algorithm.program]
    return Look(
        color=colors[position % len(colors)],
        marker=MARKERS[position % len(MARKERS)],
        dash=TOLD_DASH if algorithm.told else DASHES[position // len(colors) % len(DASHES)],
        width=1.4,
        hollow=algorithm.told,
        above=3 if algorithm.told else 4,
    )


LOOKS = _looks()
