"""One look an algorithm, the same in all plots of a command. Pure.

A hue is a program's (Okabe and Ito's, which the colour-blind can tell apart); marker and dash tell those of
one program apart. Grey and hollow is an algorithm that was told the servers' weights: not a peer, but what a
peer would have to know.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from steelyard_loadtest.reporting.plot_style import BLACK, DASHES, FAINT, MARKERS, PROGRAMS
from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.scenario.algorithms import Algorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How an algorithm is drawn; hollow markers have the colour as their edge. strong: above all others."""

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


def looks(algorithms: Sequence[Algorithm], *, strongest: str = "", all_told: bool = False) -> dict[str, Look]:
    """Return each one's look by name. all_told: everybody knows the weights, and that is no difference."""
    families = grouped(
        algorithms,
        lambda one: FAINT if one.told and not all_told else PROGRAMS.get(one.program, BLACK),
    )
    return {
        one.name: Look(
            color=color, marker=marker, dash=dash, hollow=color == FAINT, strong=one.name == strongest
        )
        for color, family in families.items()
        for one, (dash, marker) in zip(family, product(DASHES, MARKERS), strict=False)
    }
