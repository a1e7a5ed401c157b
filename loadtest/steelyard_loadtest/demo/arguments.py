"""What the demo's flags take: text in, a value or argparse's error out. Pure."""

import argparse
import re
from urllib.parse import urlsplit


def seconds(text: str) -> int:
    """Take the length of a phase: thirds of at least 2 s."""
    return _whole(text, 6, 3600, "seconds")


def rate(text: str) -> float:
    """Take requests per second."""
    return _within(text, 1, 20_000, "requests per second")


def users(text: str) -> int:
    """Take a number of users."""
    return _whole(text, 1, 5000, "users")


def _whole(text: str, lowest: int, highest: int, unit: str) -> int:
    value = _within(text, lowest, highest, unit)
    if not value.is_integer():
        raise argparse.ArgumentTypeError(f"a whole number of {unit}")
    return int(value)


def _within(text: str, lowest: float, highest: float, unit: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not lowest <= value <= highest:
        raise argparse.ArgumentTypeError(f"a number of {unit} from {lowest} to {highest}")
    return value


def url(text: str) -> str:
    """Take a base URL, without its last slash."""
    if not _is_http(text):
        raise argparse.ArgumentTypeError("a URL such as http://127.0.0.1:8080")
    return text.rstrip("/")


def servers(text: str) -> dict[str, str]:
    """Take NAME=URL,... as a mapping."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(
        re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) and _is_http(url) for name, _, url in pairs
    ):
        raise argparse.ArgumentTypeError("NAME=URL, several separated by commas")
    return {name: url.rstrip("/") for name, _, url in pairs}


def _is_http(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.netloc)
