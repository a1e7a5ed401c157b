"""The reporter's settings: from flags, else the environment, else defaults.

Pure: the command line and the environment come in as arguments; `__main__` passes the settings down.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_protocol import program_settings, setting_values, signature, wire
from steelyard_protocol.program_settings import Flags, SettingsError, Text
from steelyard_protocol.setting_values import Address

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


FLAGS = Flags(
    program="steelyard-reporter",
    about=ABOUT,
    settings=_FLAGS,
    switches=_SWITCHES,
    operand=("balancer", "haproxy", "whose traffic is reported"),
)


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
    # A host name is judged as a flag's text is: not every one can be a load balancer's name.
    host = {"lb": Text(hostname, "--lb", program_settings.DEFAULT)}
    given = program_settings.collect(FLAGS, FLAGS.parse(arguments), environment, host)
    key_file = given.value("key-file", None, lambda text: Path(text) if text else None)
    settings = Settings(
        sockets=given.value("socket", (Path("/run/haproxy/admin.sock"),), _sockets),
        upstreams=given.value("upstreams", {"web": "web"}, _upstreams),
        lb=given.value("lb", hostname, setting_values.name),
        memcached=given.value("memcached", setting_values.LOCAL_MEMCACHED, setting_values.servers),
        interval_s=given.value("interval", 1.0, setting_values.number("seconds", 0.1, 60.0)),
        set_weights=given.value("set-weights", False, setting_values.switch),
        add_servers=given.value("add-servers", None, _keywords),
        once=given.value("once", False, setting_values.switch),
        verbose=given.value("verbose", False, setting_values.switch),
        key=FLAGS.secret("key", environment, signature.key_of_variable, file=key_file),
        key_file=key_file,
    )
    if settings.add_servers is not None and not settings.set_weights:
        raise SettingsError("--add-servers goes with --set-weights: give both")
    return settings


def _sockets(text: str) -> tuple[Address | Path, ...]:
    return tuple(dict.fromkeys(_socket(part.strip()) for part in text.split(",")))


def _socket(text: str) -> Address | Path:
    if text.startswith("/"):
        return Path(text)
    remedy = "give a path from the root, such as /run/haproxy/admin.sock, or HOST:PORT"
    return setting_values.address(text, None, None, remedy)


def _upstreams(text: str) -> Mapping[str, str]:
    backends: dict[str, str] = {}
    for part in text.split(","):
        name, _, backend = part.strip().partition("=")
        if setting_values.name(name) in backends:
            raise ValueError(f"{name} is there twice: a report is of one backend")
        backends[name] = backend or name
        if not wire.is_name(backends[name]):
            raise ValueError(f"{backend!r} cannot be a backend's name here: use letters, digits, . _ and -")
    return backends


def _keywords(text: str) -> str:
    if not _KEYWORDS.fullmatch(text):
        raise ValueError("give what stands behind the address in haproxy.cfg, such as 'check inter 2s'")
    return text.strip()
