"""What an operator sets: flags, then environment, then defaults.

Pure: the command line and the environment come in as arguments; `__main__`
builds the settings once and passes them down.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

from steelyard_agent import signature, wire
from steelyard_agent.sample import Indicators

T = TypeVar("T")
Scope = Literal["host", "process"]

DEFAULT_PORT = 11211

ABOUT = (
    "Sample how busy this server is and push it to Memcached. Each flag is also STEELYARD_AGENT_<FLAG> in "
    "the environment (--memcached is STEELYARD_MEMCACHED); a flag is stronger than the environment. "
    "The shared key itself is in STEELYARD_AGENT_KEY only, because flags show in process lists."
)

# Not a flag: every user of the machine can read a command line.
KEY_VARIABLE = "STEELYARD_AGENT_KEY"


class SettingsError(Exception):
    """A setting is wrong; the message is one line that names the flag and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The agent's settings. `limits` are the capacities that were given instead of measured.

    The shared key is `key`, or in `key_file`, or there is none.
    """

    upstream: str
    peer: str
    memcached: tuple[tuple[str, int], ...]
    interval_s: float
    scope: Scope
    pid: int | None
    pid_file: Path | None
    limits: Indicators
    once: bool
    verbose: bool
    key: bytes | None = field(default=None, repr=False)
    key_file: Path | None = None


def load(arguments: Sequence[str], environment: Mapping[str, str], *, hostname: str) -> Settings:
    """Return the settings of a command line; raise `SettingsError` for the first wrong one."""
    given = vars(_parser().parse_args(arguments))

    def value(flag: str, default: T, parse: Callable[[str], T]) -> T:
        variable = _variable(flag)
        text = given[flag.replace("-", "_")]
        source = f"--{flag}" if text is not None else f"{variable} (--{flag})"
        # An empty variable is one that is not set: that is how compose files leave one out.
        text = text if text is not None else environment.get(variable) or None
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise SettingsError(f"{source} is {text!r}: {error}") from None

    settings = Settings(
        upstream=value("upstream", "web", _name),
        peer=value("peer", hostname, _name),
        memcached=value("memcached", (("127.0.0.1", DEFAULT_PORT),), _addresses),
        interval_s=value("interval", 1.0, _number("seconds", 0.1, 60.0)),
        scope=value("scope", "host", _scope),
        pid=value("pid", None, _pid),
        pid_file=value("pid-file", None, Path),
        limits=Indicators(
            cpu=value("cpu-limit", None, _number("cores, such as 0.5,", 0.001, 1e5)),
            mem=value("mem-limit", None, _number("bytes, such as 2147483648,", 1.0, 1e15)),
            net=value("net-capacity", None, _number("bytes/s, such as 125000000 for 1 Gbit/s,", 1.0, 1e15)),
            io=value("io-capacity", None, _number("operations/s", 1.0, 1e15)),
        ),
        once=value("once", False, _switch),
        verbose=value("verbose", False, _switch),
        key=_key(environment),
        key_file=value("key-file", None, Path),
    )
    return _checked(settings)


def _key(environment: Mapping[str, str]) -> bytes | None:
    # An empty one is not "none": a secret that failed to arrive would turn signing off in silence.
    if KEY_VARIABLE not in environment:
        return None
    try:
        return signature.key_of(environment[KEY_VARIABLE].encode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise SettingsError(f"{KEY_VARIABLE}: {error}") from None


def _checked(settings: Settings) -> Settings:
    named = [flag for flag, given in (("--pid", settings.pid), ("--pid-file", settings.pid_file)) if given]
    if not wire.is_name(settings.peer):
        raise SettingsError(
            f"--peer: the host name {settings.peer!r} cannot be a peer's name: give --peer NAME"
        )
    if settings.scope == "host" and named:
        raise SettingsError(f"{named[0]} is for one process: add --scope process")
    if settings.key is not None and settings.key_file is not None:
        raise SettingsError(
            f"{KEY_VARIABLE} and --key-file ({KEY_VARIABLE}_FILE) are both set: leave one out"
        )
    if settings.scope == "process" and len(named) != 1:
        raise SettingsError(
            f"--scope process needs --pid N or --pid-file FILE{', not both' if named else ''}"
        )
    return settings


def _variable(flag: str) -> str:
    # Shared with everything else that is told where Memcached is.
    return (
        "STEELYARD_MEMCACHED" if flag == "memcached" else f"STEELYARD_AGENT_{flag.upper().replace('-', '_')}"
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message} (steelyard-agent --help lists the flags)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="steelyard-agent", description=ABOUT, allow_abbrev=False)
    add = parser.add_argument
    add("--upstream", metavar="NAME", help="the upstream this server belongs to (default: web)")
    add("--peer", metavar="NAME", help="this server's name in the upstream (default: the host name)")
    add("--memcached", metavar="HOST:PORT,...", help="where samples go, to each (default: 127.0.0.1:11211)")
    add("--interval", metavar="SECONDS", help="time between two samples, 0.1..60 (default: 1)")
    add(
        "--scope", metavar="host|process", help="the machine, or one process and its children (default: host)"
    )
    add("--pid", metavar="N", help="process scope: the process")
    add(
        "--pid-file",
        metavar="FILE",
        help="process scope: the file that holds its number, read at every sample",
    )
    add("--cpu-limit", metavar="CORES", help="CPU that is 100 %% (default: the cores it may use)")
    add("--mem-limit", metavar="BYTES", help="memory that is 100 %% (default: the machine's)")
    add(
        "--net-capacity",
        metavar="BYTES/S",
        help="network speed that is 100 %% (default: the NIC's, if known)",
    )
    add(
        "--io-capacity",
        metavar="OPS/S",
        help="operations that are 100 %% (process scope: read and write calls)",
    )
    add(
        "--key-file",
        metavar="FILE",
        help="the file that holds the shared key; samples are then signed (default: they are not)",
    )
    add("--once", action="store_const", const="yes", help="print one sample as JSON, send nothing, exit")
    add("--verbose", action="store_const", const="yes", help="log every sample")
    return parser


def _name(text: str) -> str:
    if not wire.is_name(text):
        raise ValueError(
            "a name is 1 to 64 letters, digits, dots, dashes and underscores, no dot or dash first"
        )
    return text


def _scope(text: str) -> Scope:
    match text:
        case "host" | "process":
            return text
    raise ValueError("give host or process")


def _pid(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:10]) > 0 and len(text) <= 10):
        raise ValueError("give the number of a process, such as 4711")
    return int(text)


def _number(what: str, low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = nan  # which is within no bounds
        if not low <= number <= high:
            raise ValueError(f"give {what} within {low:g}..{high:g}")
        return number

    return parse


def _switch(text: str) -> bool:
    if text.lower() not in {"1", "true", "yes", "on", "0", "false", "no", "off"}:
        raise ValueError("give yes or no")
    return text.lower() in {"1", "true", "yes", "on"}


def _addresses(text: str) -> tuple[tuple[str, int], ...]:
    return tuple(_address(part.strip()) for part in text.split(","))


def _address(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if bracket and rest[:1] in {"", ":"} else "?"
    else:
        host, _, port = text.partition(":")
    port = port or str(DEFAULT_PORT)
    if not host or not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise ValueError(
            "give HOST:PORT, such as 127.0.0.1:11211 or [::1]:11211, with commas between several"
        )
    return host, int(port)
