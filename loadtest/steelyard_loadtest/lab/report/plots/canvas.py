"""What all plots share: type, grid, scales, legends, and saving (matplotlib, PNG files)."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl

mpl.use("Agg")  # a file, never a window
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from PIL import Image

from steelyard_loadtest.lab.report.palette import LOOKS

DPI = 120
"""A plot of 10 inches is as wide as a page's column on a good screen."""

DECADES_FROM = 6.0
"""A range wider than this is drawn on a log scale: the least would be a line on the axis."""

MANY_DECADES = 300.0
"""Over a wider range the labels of 2 and 5 would touch."""

SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.edgecolor": "#888888",
    "legend.frameon": False,
}


@contextmanager
def canvas(file: Path, rows: int, columns: int, **options: Any) -> Iterator[tuple[Figure, list[list[Axes]]]]:  # noqa: ANN401 - matplotlib's own
    """Give a figure and its grid of axes; it is saved and closed at the end."""
    with mpl.rc_context(SETTINGS):
        figure, axes = plt.subplots(rows, columns, squeeze=False, layout="constrained", **options)
        try:
            yield figure, [list(row) for row in axes]
            _save(figure, file)
        finally:
            plt.close(figure)


def line_style(algorithm: str) -> dict[str, Any]:
    """Return the keywords of Axes.plot for an algorithm's line with markers."""
    return stroke(algorithm) | dots(algorithm)


def stroke(algorithm: str) -> dict[str, Any]:
    """Return the keywords of Axes.plot for an algorithm's bare line."""
    look = LOOKS[algorithm]
    return {"color": look.color, "linestyle": look.dash, "linewidth": look.width, "zorder": look.above}


def dots(algorithm: str) -> dict[str, Any]:
    """Return the keywords of Axes.plot for an algorithm's markers."""
    look = LOOKS[algorithm]
    return {
        "marker": look.marker,
        "markersize": 7 if look.width > 2 else 5.5,
        "markerfacecolor": "white" if look.hollow else look.color,
        "markeredgecolor": look.color,
        "zorder": look.above,
    }


def spans_decades(values: Sequence[float]) -> bool:
    """Say whether values need a log scale, and can have one."""
    return bool(values) and min(values) > 0 and max(values) / min(values) > DECADES_FROM


def log_scale(axes: Axes, which: Literal["x", "y"], values: Sequence[float]) -> None:
    """Make an axis logarithmic, with plain numbers at 1, 2 and 5, or at tens where there are many decades."""
    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    few = max(values) / min(values) < MANY_DECADES
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    plain_numbers(axis)
    axis.set_minor_formatter(NullFormatter())


def plain_numbers(axis: Axis) -> None:
    """Write an axis's figures in full, with a comma at the thousands."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _save(figure: Figure, file: Path) -> None:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=DPI)
    with Image.open(picture) as full:
        # A third of the size. The octree keeps rare colours: median cut gives two algorithms the same.
        small = full.convert("RGB").quantize(method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    small.save(file, optimize=True)
