"""The style of all plots: type, grid, colours, scales, legends; and small PNG files (matplotlib)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl

mpl.use("Agg")  # a file, never a window
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from PIL import Image
from steelyard_protocol import whole_file

# Okabe and Ito's palette, which the colour-blind can distinguish. Ours is orange, and nginx is blue.
ORANGE, BLUE, GREEN, PINK = "#D55E00", "#0072B2", "#009E73", "#CC79A7"
YELLOW, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
PALE_ORANGE = "#E69E66"
COLORS = (ORANGE, BLUE, GREEN, PINK, YELLOW, SKY, BLACK)
PROGRAMS = {
    "steelyard": ORANGE,
    "nginx": BLUE,
    "haproxy": GREEN,
    "envoy": PINK,
    "nginx-mainline": SKY,
    "traefik": YELLOW,
}

INK, REFERENCE, FAINT = "#222222", "#555555", "#777777"
DASHES = ("-", "--", "-.", ":")
SHORT_DASH = (0, (2, 2))
MARKERS = "osD^vPX*<>h"

Place = Any
"""A place of matplotlib's legends, such as `upper left`; outside of the panels: `outside lower center`."""

DPI = 120
"""A plot of 10 inches is as wide as a page's column on a good screen."""

DECADES_FROM = 6.0
"""A wider range is drawn on a log scale, because its least would be a line on the axis."""

LABEL_IN = {"x": 0.5, "y": 0.17}
"""Room for a figure of five digits along an axis."""

LABELLED: Sequence[tuple[tuple[int, ...], float]] = (((1, 2, 5), 0.301), ((1, 3), 0.477), ((1,), 1.0))
"""The labelled figures of a decade, and the shortest distance of two of them in decades."""

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
def canvas(
    file: Path,
    rows: int = 1,
    columns: int = 1,
    *,
    dpi: int = DPI,
    settings: Mapping[str, Any] | None = None,
    all_colors: bool = False,
    **options: Any,  # noqa: ANN401 - of matplotlib's subplots
) -> Iterator[tuple[Figure, list[list[Axes]]]]:
    """Yield a figure and its grid of axes; it is saved and closed at the end.

    settings: of matplotlib, besides ours. all_colors: for heat maps, which need more than 256 colours.
    """
    with mpl.rc_context(SETTINGS | dict(settings or {})):
        figure, axes = plt.subplots(rows, columns, squeeze=False, layout="constrained", **options)
        try:
            yield figure, [list(row) for row in axes]
            save(figure, file, dpi=dpi, all_colors=all_colors)
        finally:
            plt.close(figure)


def save(figure: Figure, file: Path, *, dpi: int = DPI, all_colors: bool = False) -> None:
    """Write a PNG file of 256 colours, a third of the size."""
    # `savefig` would draw twice, first for the layout, and write a PNG file to be read again.
    figure.set_dpi(dpi)
    agg: Any = FigureCanvasAgg(figure)  # without types
    agg.draw()
    full = Image.frombuffer("RGBA", agg.get_width_height(), agg.buffer_rgba(), "raw", "RGBA", 0, 1)
    small = full.convert("RGB")
    if not all_colors:
        # The octree keeps rare colours: median cut gives two algorithms the same.
        small = small.quantize(method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    with whole_file.replacing(file) as fresh:
        small.save(fresh, optimize=True)


def headline(figure: Figure, title: str, size: float = 13) -> None:
    """Write the figure's title, bold and to the left."""
    figure.suptitle(title, fontsize=size, fontweight="bold", x=0.01, ha="left")


def legend(
    figure: Figure, place: Place = "outside lower center", columns: int = 4, size: float = 8.5
) -> None:
    """Name the lines of all panels once each, in a legend of the figure."""
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if handles:
        figure.legend(list(handles.values()), list(handles), loc=place, ncols=columns, fontsize=size)


def spans_decades(values: Sequence[float]) -> bool:
    """Return whether values need a log scale, and can have one."""
    return bool(values) and min(values) > 0 and max(values) / min(values) > DECADES_FROM


def log_scale(axes: Axes, which: Literal["x", "y"], values: Sequence[float]) -> None:
    """Make an axis logarithmic, with plain numbers at 1, 2 and 5, or at fewer if these would touch.

    values: all that are shown, and the axis's limits.
    """
    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    box = axes.get_window_extent()
    inches = (box.width if which == "x" else box.height) / axes.figure.dpi
    decades = math.log10(max(values) / min(values))
    axis.set_major_locator(LogLocator(subs=labelled(decades, inches, LABEL_IN[which])))
    plain_numbers(axis)
    axis.set_minor_formatter(NullFormatter())


def labelled(decades: float, inches: float, label_in: float) -> tuple[int, ...]:
    """Return the figures of each decade whose labels fit into an axis of this length."""
    fitting = (figures for figures, apart in LABELLED if apart * inches >= label_in * decades)
    return next(fitting, LABELLED[-1][0])


def plain_numbers(axis: Axis) -> None:
    """Write an axis's figures in full, with a comma at the thousands."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
