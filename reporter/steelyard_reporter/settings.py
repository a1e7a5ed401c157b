"""The reporter's settings: from flags, else the environment, else defaults.

Pure: the command line and the environment come in as arguments; `__main__` passes the settings down.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeVar

from steelyard_protocol import setting_values, signature, wire
from steelyard_protocol.setting_values import Address

T = TypeVar("T")

# Not a flag: every user of the machine can read a command line.
KEY_VARIABLE = "STEELYARD_REPORTER_KEY"

# What HAProxy takes behind `server NAME ADDRESS`; a line of commands ends at the others.
_KEYWORDS = re.compile(r"[ -:<-~]*")

ABOUT = (
    "Report what a HAProxy sees of each server to Steelyard's controller, as nginx does, so that its laws "
    "learn behind HAProxy too; with --set-weights set HAProxy's weights as well. Each flag is also "
    "STEELYARD_REPORTER_<FLAG> in the environment (--memcached is STEELYARD_MEMCACHED); a flag is stronger. "
    "The key itself is in STEELYARD_REPORTER_KEY only, because flags show in process lists."
)

_FLAGS = (
    ("socket", "PATH|HOST:PORT,...", "HAProxy's runtime socket (`stats socket`), or its master's (-S), which "
     "also tells of processes that a reload has replaced; several for several processes, which are summed "
     "(default: /run/haproxy/admin.sock)"),
    ("upstreams", "NAME[=BACKEND],...", "the upstreams in Steelyard, and their backends in haproxy.cfg where "
     "the names differ (default: web)"),
    ("lb", "NAME", "this load balancer's name, another one for each (default: the host name)"),
    ("memcached", "HOST:PORT,...", "where reports go and weight tables lie (default: 127.0.0.1:11211)"),
    ("interval", "SECONDS", "time between two reports, 0.1..60 (default: 1)"),
    ("add-servers", "KEYWORDS", "with --set-weights: add declared servers that HAProxy has not, with these "
     "keywords, such as 'check inter 2s' (HAProxy 2.5 or later)"),
    ("key-file", "FILE", "the file that holds this load balancer's key (`steelyard keys lb NAME`), or the "
     "shared one"),
)  # fmt: skip

_SWITCHES = (
    ("set-weights", "set weights and states by the socket, in place of agent-check; needs `level admin`"),
    ("once", "print one report of each upstream as JSON, send and set nothing, exit"),
    ("verbose", "log every report"),
)


class SettingsError(Exception):
    """A setting is wrong; the message is one line that names it and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings. `upstreams` is by name the backend in haproxy.cfg; the key is `key`, or in `key_file`."""

    sockets: tuple[Address | Path, ...]
    upstreams: Mapping[str, str]
    lb: str
    memcached: tuple[Address, ...]
    interval_s: float
    set_weights: bool = False
    add_servers: str | None = None
    once: bool = False
    verbose: bool = False
    key: bytes | None = field(default=None, repr=False)
    key_file: Path | None = None


def load(arguments: Sequence[str], environment: Mapping[str, str], *, hostname: str) -> Settings:
    """Return the settings; raise `SettingsError` for the first wrong one."""
    given = {name.replace("_", "-"): text for name, text in vars(_parser().parse_args(arguments)).items()}

    def value(flag: str, default: str, parse: Callable[[str], T]) -> T:
        # An empty variable is one that is not set: that is how compose files leave one out.
        variable = variable_of(flag)
        text, place = given.get(flag), f"--{flag}"
        if text is None and environment.get(variable):
            text, place = environment[variable], f"{variable} (--{flag})"
        try:
            return parse(default if text is None else text)
        except ValueError as error:
            raise SettingsError(f"{place} is {text or default!r}: {error}") from None

    settings = Settings(
        sockets=value("socket", "/run/haproxy/admin.sock", _sockets),
        upstreams=value("upstreams", "web", _upstreams),
        lb=value("lb", hostname, setting_values.name),
        memcached=value("memcached", "127.0.0.1", setting_values.servers),
        interval_s=value("interval", "1", setting_values.number("seconds", 0.1, 60.0)),
        set_weights=value("set-weights", "no", setting_values.switch),
        add_servers=value("add-servers", "\0", _keywords),
        once=value("once", "no", setting_values.switch),
        verbose=value("verbose", "no", setting_values.switch),
        key=_key(environment),
        key_file=value("key-file", "", lambda text: Path(text) if text else None),
    )
    if settings.add_servers is not None and not settings.set_weights:
        raise SettingsError("--add-servers goes with --set-weights: give both")
    if settings.key is not None and settings.key_file is not None:
        raise SettingsError(
            f"{KEY_VARIABLE} and --key-file ({KEY_VARIABLE}_FILE) are both set: leave one out"
        )
    return settings


def variable_of(flag: str) -> str:
    """Return the environment's name of a flag."""
    # Shared with everything else that is told where Memcached is.
    name = flag.upper().replace("-", "_")
    return "STEELYARD_MEMCACHED" if flag == "memcached" else f"STEELYARD_REPORTER_{name}"


def _sockets(text: str) -> tuple[Address | Path, ...]:
    return tuple(dict.fromkeys(_socket(part.strip()) for part in text.split(",")))


def _socket(text: str) -> Address | Path:
    if text.startswith("/"):
        return Path(text)
    return setting_values.host_and_port(
        text, "give a path from the root, such as /run/haproxy/admin.sock, or HOST:PORT"
    )


def _upstreams(text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        name, _, backend = part.strip().partition("=")
        if setting_values.name(name) in found:
            raise ValueError(f"{name} is there twice: a report is of one backend")
        found[name] = backend or name
        if not wire.is_name(found[name]):
            raise ValueError(f"{backend!r} cannot be a backend's name here: use letters, digits, . _ and -")
    return found


def _keywords(text: str) -> str | None:
    if text == "\0":
        return None
    if not _KEYWORDS.fullmatch(text):
        raise ValueError("give what stands behind the address in haproxy.cfg, such as 'check inter 2s'")
    return text.strip()


def _key(environment: Mapping[str, str]) -> bytes | None:
    if KEY_VARIABLE not in environment:
        return None
    try:
        return signature.key_of_variable(environment[KEY_VARIABLE])
    except ValueError as error:
        raise SettingsError(f"{KEY_VARIABLE}: {error}") from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message} (steelyard-reporter haproxy --help lists the flags)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="steelyard-reporter", description=ABOUT, allow_abbrev=False)
    parser.add_argument("balancer", choices=["haproxy"], help="whose traffic is reported")
    for flag, metavar, about in _FLAGS:
        parser.add_argument(f"--{flag}", metavar=metavar, help=about)
    for flag, about in _SWITCHES:
        parser.add_argument(f"--{flag}", action="store_const", const="yes", help=about)
    return parser
