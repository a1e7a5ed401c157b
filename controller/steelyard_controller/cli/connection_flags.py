"""The flags of every command (--url, --token-file, --timeout, --json), merged with the environment. Pure."""

import argparse
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard_protocol import setting_values, wire

from steelyard_controller.cli.exit_status import UsageError

DEFAULT_URL = "http://127.0.0.1:8081"

# A leader on the same network answers in milliseconds; a person waits this long without wondering.
DEFAULT_TIMEOUT_S = 5.0

SMALLEST = math.nextafter(0, 1)
"""The smallest number above 0."""

# A wrong value is repeated up to this length.
MOST_SHOWN = 40

# A path in the URL is a reverse proxy's prefix.
_URL = re.compile(
    r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?(/[A-Za-z0-9._~/-]*)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The controllers' URLs, the token (in `token_file`, or `token` itself) and the timeout."""

    urls: tuple[str, ...]
    token_file: Path | None
    token: str | None
    timeout_s: float


def add(parser: argparse.ArgumentParser, **defaults: object) -> None:
    """Add the flags, and defaults; absent flags stay unset: they may come before or after the subcommand."""
    unset = argparse.SUPPRESS
    group = parser.add_argument_group("connection and output")
    group.add_argument(
        "--url", default=unset, metavar="URL,…", help="Controllers' REST APIs, asked in turn until one "
        f"answers (default: STEELYARD_URL, else {DEFAULT_URL})",
    )  # fmt: skip
    group.add_argument(
        "--token-file",
        default=unset,
        type=Path,
        metavar="FILE",
        help="File of the token (default: STEELYARD_TOKEN)",
    )
    group.add_argument(
        "--timeout",
        default=unset,
        metavar="SECONDS",
        help=f"Time for each answer in seconds, at most 3600 (default: {DEFAULT_TIMEOUT_S:g})",
    )
    group.add_argument(
        "--json", default=unset, action="store_true", help="Print the API's document instead of a table"
    )
    parser.set_defaults(**defaults)


def connection(options: argparse.Namespace, environment: Mapping[str, str]) -> Connection:
    """Return the connection from flags and environment; raise `UsageError`."""
    given = getattr(options, "url", None)
    text = environment.get("STEELYARD_URL", "") or DEFAULT_URL if given is None else given
    source = "STEELYARD_URL" if given is None else "--url"
    token_file = getattr(options, "token_file", None)
    token = environment.get("STEELYARD_TOKEN") if token_file is None else None
    return Connection(
        urls=tuple(dict.fromkeys(_url(part.strip(), source) for part in text.split(","))),
        token_file=token_file,
        token=None if token is None else as_token(token, "STEELYARD_TOKEN"),
        timeout_s=number(
            "--timeout",
            getattr(options, "timeout", f"{DEFAULT_TIMEOUT_S}"),
            SMALLEST,
            3600,
            "give seconds, more than 0 and at most 3600",
        ),
    )


def wants_json(options: argparse.Namespace) -> bool:
    """Return whether --json is given."""
    return bool(getattr(options, "json", False))


def name(text: str, what: str) -> str:
    """Return `text` if it can name an upstream or a peer; raise `UsageError` otherwise."""
    if not wire.is_name(text):
        raise UsageError(
            f"{text[:80]!r} cannot be the name of {what}: names have 1 to 64 letters, digits, dots, dashes "
            "and underscores, no dot or dash first"
        )
    return text


def as_token(text: str, source: str) -> str:
    """Return the first token in a text; raise `UsageError` if none fits into a header."""
    token = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not token:
        raise UsageError(f"{source} holds no token: put it there, in one line, or leave it out")
    if not all("!" <= letter <= "~" for letter in token):
        raise UsageError(f"{source} holds no valid token: give one without spaces, in ASCII")
    return token


def _url(text: str, source: str) -> str:
    if "@" in text:
        raise UsageError(f"{source}: a URL shows in process lists: give the token with --token-file")
    parts = _URL.fullmatch(text)
    if parts is None or int(parts["port"] or 80) not in range(1, 65536):
        raise UsageError(
            f"{source}: {text!r} is no URL of a controller: "
            f"write it as {DEFAULT_URL}, with commas between several"
        )
    return text.rstrip("/")


def number(flag: str, text: str, low: float, high: float, advice: str) -> float:
    """Return a flag's number within bounds; raise `UsageError` with the advice."""
    value = setting_values.as_number(text)
    if not low <= value <= high:
        raise UsageError(f"{flag} {text[:MOST_SHOWN]}: {advice}")
    return value


def whole_number(flag: str, text: str, low: int, high: int, what: str) -> int:
    """Return a flag's whole number within bounds; raise `UsageError`."""
    value = setting_values.as_whole_number(text)
    if value is None or not low <= value <= high:
        raise UsageError(f"{flag} {text[:MOST_SHOWN]}: give {what} within {low}..{high}, without a point")
    return value
