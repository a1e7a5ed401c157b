"""The look of each algorithm, the same in all plots of a command. Pure.

A hue stands for a program (Okabe and Ito's, which the colour-blind can distinguish); marker and dash
distinguish the algorithms of one program. Grey and hollow is an algorithm that was given the servers'
weights. It is not a peer, but shows what a peer would have to know. Pale is ours without the defaults.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steelyard_loadtest.reporting.plot_style import BLACK, DASHES, FAINT, MARKERS, PALE_ORANGE, PROGRAMS
from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.scenario.algorithms import Algorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The drawing of an algorithm; hollow markers have the colour as their edge. strong: above all others."""

    color: str
    marker: str
    dash: str
    hollow: bool
    strong: bool

    @property
    def line(self) -> dict[str, Any]:
        """Return the keywords of matplotlib's Axes.plot for its line and markers."""
        return {
            "color": self.color,
            "linestyle": self.dash,
            "linewidth": 3.0 if self.strong else 1.6,
            "zorder": 4 if self.strong else 3,
            "marker": self.marker,
            "markersize": self.marker_size,
            "markerfacecolor": "white" if self.hollow else self.color,
        }

    @property
    def marker_size(self) -> float:
        """Return the size of its markers."""
        return 7 if self.strong else 5


def looks(
    algorithms: Sequence[Algorithm], *, strongest: str = "", all_informed: bool = False
) -> dict[str, Look]:
    """Return each algorithm's look by name. all_informed: all know the weights, so looks do not show it."""

    def color_of(one: Algorithm) -> str:
        if one.informed and not all_informed:
            return FAINT
        return (
            PALE_ORANGE
            if strongest and one.ours and one.name != strongest
            else PROGRAMS.get(one.program, BLACK)
        )

    families = grouped(algorithms, color_of)
    return {
        one.name: Look(
            color=color, marker=marker, dash=dash, hollow=color == FAINT, strong=one.name == strongest
        )
        for color, family in families.items()
        for place, one in enumerate(family)
        for dash, marker in [_line(place)]
    }


def _line(place: int) -> tuple[str, str]:
    """Return dash and marker of a program's algorithm: both are others than those of its neighbours."""
    around, marker = divmod(place, len(MARKERS))
    return DASHES[(around + marker + marker // len(DASHES)) % len(DASHES)], MARKERS[marker]
