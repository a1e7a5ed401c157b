"""Parsers of settings that several programs have: names, ports, numbers, addresses. Pure.

The text may come from a flag, the environment or a file. Each function returns the value, or raises
ValueError with the remedy.
"""

import re
from collections.abc import Callable
from math import nan

from steelyard_protocol import wire

Address = tuple[str, int]

MEMCACHED_PORT = 11211

# A variable from a file may end with a line break.
_NUMBER = re.compile(r"[ \t\r\n]*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?[ \t\r\n]*", re.ASCII | re.IGNORECASE)

# int() refuses thousands of digits with an error of its own. No bound here has more than these.
_WHOLE = re.compile(r"[ \t\r\n]*[+-]?\d{1,18}[ \t\r\n]*", re.ASCII)


def name(text: str) -> str:
    """Return the name of an upstream or a peer."""
    if not wire.is_name(text):
        raise ValueError(
            "a name is 1 to 64 letters, digits, dots, dashes and underscores, no dot or dash first"
        )
    return text


def port(text: str) -> int:
    """Return a TCP port."""
    if not _is_port(text):
        raise ValueError("give a port, such as 8080")
    return int(text)


def number(what: str, low: float, high: float) -> Callable[[str], float]:
    """Return a parser of numbers within bounds."""

    def parse(text: str) -> float:
        value = as_number(text)
        if not low <= value <= high:
            raise ValueError(f"give {what} within {low:g}..{high:g}")
        return value

    return parse


def whole_number(what: str, low: int, high: int) -> Callable[[str], int]:
    """Return a parser of whole numbers within bounds."""

    def parse(text: str) -> int:
        value = as_whole_number(text)
        if value is None or not low <= value <= high:
            raise ValueError(f"give {what} within {low}..{high}, without a point")
        return value

    return parse


def as_number(text: str) -> float:
    """Return the number that a text is in ASCII digits; NaN, which is within no bounds, for another text.

    Python's float() also reads 1_0, digits of other scripts, nan and inf.
    """
    return float(text) if _NUMBER.fullmatch(text) else nan


def as_whole_number(text: str) -> int | None:
    """Return the whole number that a text is in ASCII digits; None for another text, or too many digits."""
    return int(text) if _WHOLE.fullmatch(text) else None


def switch(text: str) -> bool:
    """Return a yes or a no."""
    if text.lower() not in {"1", "true", "yes", "on", "0", "false", "no", "off"}:
        raise ValueError("give yes or no")
    return text.lower() in {"1", "true", "yes", "on"}


def servers(text: str) -> tuple[Address, ...]:
    """Return the addresses of Memcached servers, each once."""
    remedy = "give HOST:PORT, such as 127.0.0.1:11211 or [::1]:11211, with commas between several"
    addresses = [address(part.strip(), None, MEMCACHED_PORT, remedy) for part in text.split(",")]
    return tuple(dict.fromkeys(addresses))


def address(text: str, default_host: str | None, default_port: int | None, remedy: str) -> Address:
    """Return HOST and PORT; a missing one has its default, if it has one; the ValueError is `remedy`."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if bracket and rest[:1] in {"", ":"} else "?"
    else:
        host, _, port = text.partition(":")
    host = host or default_host or ""
    port = port or str(default_port)
    if not host or not _is_port(port):
        raise ValueError(remedy)
    return host, int(port)


def _is_port(text: str) -> bool:
    return is_number(text) and len(text) <= 5 and 0 < int(text) < 65536


def is_number(text: str) -> bool:
    """Return whether a text has ASCII digits only."""
    return text.isascii() and text.isdigit()
