"""Format figures for narrow columns: percentages, times, bars, sparklines. Pure.

The headings have the units.
"""

from collections.abc import Sequence
from math import isfinite

UNKNOWN = "-"

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-=+*#@"


def percent(ratio: float | None, digits: int = 0) -> str:
    """Return a ratio as a percentage without its sign."""
    return UNKNOWN if ratio is None else f"{100 * ratio:.{digits}f}"


def figure(value: float | None) -> str:
    """Return a figure with three significant digits, more only before the point; whole numbers as such."""
    if value is None or not isfinite(value):
        return UNKNOWN
    size = abs(value)
    if size >= 99.95 or value == int(value):
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.01 else f"{value:.2g}"


def fixed(value: float | None, digits: int) -> str:
    """Return a figure with `digits` digits after the point."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def span(seconds: float) -> str:
    """Return a time as its two largest units: 2 h 5 min."""
    whole = int(seconds)
    for size, unit, smaller, small in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def bar(ratio: float, width: int, *, ascii_only: bool) -> str:
    """Return a bar of at most `width` characters; any ratio above 0 is visible."""
    ratio = min(max(ratio, 0.0), 1.0)
    if ascii_only:
        return "#" * (max(1, round(ratio * width)) if ratio > 0 else 0)
    eighths = max(1, round(ratio * width * 8)) if ratio > 0 else 0
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def sparkline(values: Sequence[float | None], width: int, *, ascii_only: bool) -> str:
    """Return a line of at most `width` block characters, from 0 to the largest value.

    Each character is the mean of its part of the values; a blank if none is known.
    """
    if not values or width < 1:
        return ""
    levels = _ASCII_LEVELS if ascii_only else _LEVELS
    count = min(width, len(values))
    means: list[float | None] = []
    for at in range(count):
        part = values[at * len(values) // count : (at + 1) * len(values) // count]
        known = [value for value in part if value is not None]
        means.append(sum(known) / len(known) if known else None)
    top = max((mean for mean in means if mean is not None), default=0.0)
    return "".join(
        " " if mean is None else levels[round(mean / top * (len(levels) - 1)) if top > 0 else 0]
        for mean in means
    )
