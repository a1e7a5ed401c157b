"""Bytes, times and figures as people read them. Pure."""

KB, MB = 1024, 1024 * 1024

BYTES = ("private memory", "LuaJIT heap", "used memory")


def amount(figure: str, value: float) -> str:
    """Write a value of a figure: memory in MB, the others as numbers."""
    return f"{value / MB:,.1f} MB" if figure in BYTES else f"{value:,.0f}"


def grown(figure: str, value: float) -> str:
    """Write by how much a figure grew, with its sign: memory in kB."""
    return f"{value / KB:+,.0f} kB" if figure in BYTES else f"{value:+,.0f}"


def rate(figure: str, per_hour: float) -> str:
    """Write a growth per hour: memory in MB."""
    return f"{per_hour / MB:+,.1f} MB/h" if figure in BYTES else f"{per_hour:+,.0f}/h"


def smallest(figure: str, per_s: float) -> str:
    """Write the smallest steady leak that would have been found."""
    return f"{per_s / KB:,.1f} kB/s" if figure in BYTES else f"{per_s * 60:,.1f}/min"


def clock(seconds: float) -> str:
    """Write minutes and seconds."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02}"
