"""One look an algorithm, the same in every plot. Pure.

A hue is a program's (Okabe and Ito's, which the colour-blind can tell apart); ours are
the warm ones, a shade a law and a marker a picker. Grey, hollow and dashed is an
algorithm that was told the servers' weights: not a peer, but what a peer would have
to know.
"""

from dataclasses import dataclass

from steelyard_loadtest.lab.algorithms import ALGORITHMS, DEFAULT, LAWS, PICKERS, Algorithm

Dash = str | tuple[int, tuple[float, ...]]

LAW_COLORS = {"steelyard": "#D55E00", "paper": "#E69F00", "cswrr": "#8C2D04", "static": "#F5A870"}
PROGRAM_COLORS = {
    "direct": ("#000000",),
    "nginx": ("#0072B2", "#56B4E9", "#0B2F66", "#7C93D1"),
    "haproxy": ("#009E73", "#00563F", "#6CC7A1", "#A6C84C"),
    "envoy": ("#CC79A7", "#7B3294", "#E3A8CE"),
}
TOLD_COLORS = ("#4D4D4D", "#8C8C8C", "#B5B5B5")
MARKERS = "osD^vPX*<>"
DASHES: tuple[Dash, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)))
TOLD_DASH: Dash = (0, (3, 2))


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


def _looks() -> dict[str, Look]:
    looks: dict[str, Look] = {}
    used: dict[str, int] = {}
    for algorithm in ALGORITHMS:
        family = "told" if algorithm.told else algorithm.program
        position = used.get(family, 0)
        used[family] = position + 1
        looks[algorithm.name] = _ours(algorithm) if algorithm.ours else _theirs(algorithm, position)
    return looks


def _ours(algorithm: Algorithm) -> Look:
    default = algorithm.name == DEFAULT
    law = LAWS.index(algorithm.law)
    return Look(
        color=LAW_COLORS[algorithm.law],
        marker=MARKERS[PICKERS.index(algorithm.method)],
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
