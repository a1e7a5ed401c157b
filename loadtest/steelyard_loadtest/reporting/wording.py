"""Numbers, times, bytes and ratios for people. Pure; None becomes a dash everywhere."""

import math
from collections.abc import Sequence

ABSENT = "–"
NEVER = "never"
KB, MB = 1024, 1024 * 1024


def number(value: float | None, digits: int | None = None) -> str:
    """Write a figure with this number of decimals; without `digits`, with about three significant digits."""
    if value is None or math.isnan(value):
        return ABSENT
    if math.isinf(value):
        return NEVER
    return f"{value:,.{decimals(value) if digits is None else digits}f}"


def decimals(value: float) -> int:
    """Return the number of decimals that show about three digits of a value."""
    size = abs(value)
    return next((digits for least, digits in ((100, 0), (10, 1), (1, 2)) if size >= least), 3 if size else 0)


def plus_minus(value: float | None, deviation: float | None, digits: int | None = None) -> str:
    """Write a figure and its deviation with the same decimals; leave out an unknown one (None, NaN)."""
    if value is None or deviation is None or math.isnan(deviation):
        return number(value, digits)
    places = decimals(value) if digits is None else digits
    return f"{number(value, places)} ± {number(deviation, places)}"


def milliseconds(value: float | None) -> str:
    """Write milliseconds: short ones to the tenth."""
    return number(value, None if value is None else 1 if value < 10 else 0)


def ratio(value: float | None) -> str:
    """Write a ratio with two decimals, or with enough to show on which side of 1 it is."""
    if value is None:
        return ABSENT
    return f"{value:.{next((digits for digits in (2, 3, 4) if round(value, digits) != 1), 2)}f}"


def percent(part: float | None, digits: int = 0) -> str:
    """Write a part of 1 as a percentage."""
    return ABSENT if part is None else f"{part * 100:.{digits}f} %"


def small_percent(part: float | None, digits: int = 1) -> str:
    """Write a part of 1 as a percentage; a small part is never written as zero."""
    least = 0.1**digits
    return f"<{least:g} %" if part is not None and 0 < part * 100 < least / 2 else percent(part, digits)


def against(value: str, bound: str, *, kept: bool) -> str:
    """Write a figure beside its maximum."""
    return f"{value} {'≤' if kept else '>'} {bound}"


def clock(seconds: float) -> str:
    """Write minutes and seconds, and hours if there are any: 1:05, 2:00:09."""
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def duration(seconds: float) -> str:
    """Write a duration in its largest units: 80 s, 12 min, 3 h 05 min."""
    whole = max(round(seconds), 0)
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def counted(count: int, noun: str) -> str:
    """Write a number of things: 1 fault, 2,000 faults."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def sentence(parts: Sequence[str]) -> str:
    """Join names: a, b and c."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
