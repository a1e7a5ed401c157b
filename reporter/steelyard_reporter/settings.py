"""The reporter's settings: from flags, else the environment, else defaults.

Pure: the command line and the environment come in as arguments; `__main__` passes the settings down.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_protocol import program_settings, setting_values, signature, wire
from steelyard_protocol.program_settings import Flags, Setting, SettingsError
from steelyard_protocol.setting_values import Address

# HAProxy's characters behind `server NAME ADDRESS`; others would end the line of commands.
_KEYWORDS = re.compile(r"[ -:<-~]*")

ABOUT = (
    "Report the traffic from an HAProxy to each server to Steelyard's controller, so that the control "
    "laws learn behind HAProxy as they do behind nginx. With --set-weights, also set HAProxy's weights. Each "
    "flag is also STEELYARD_REPORTER_<FLAG> in the environment (--memcached is STEELYARD_MEMCACHED). A flag "
    "overrides the environment. The key itself is in STEELYARD_REPORTER_KEY, because every user can read a "
    "command line."
)

SETTINGS = (
    Setting(
        name="socket",
        metavar="PATH|HOST:PORT,...",
        help="Runtime sockets of HAProxy (`stats socket`), one a process, summed; or a master's socket (-S), "
        "which also lists processes before a reload",
        default="/run/haproxy/admin.sock",
    ),
    Setting(
        name="upstreams",
        metavar="NAME[=BACKEND],...",
        help="Upstreams in Steelyard, each with its backend in haproxy.cfg if the names differ",
        default="web",
    ),
    Setting(name="lb", metavar="NAME", help="Unique name of this load balancer", unset="the host name"),
    Setting(
        name="memcached",
        metavar="HOST:PORT,...",
        help="Memcached servers for reports and weight tables",
        default="127.0.0.1:11211",
    ),
    Setting(name="interval", metavar="SECONDS", help="Time between two reports, 0.1 to 60", default="1"),
    Setting(
        name="add-servers",
        metavar="KEYWORDS",
        help="Server keywords, such as 'check inter 2s', for declared servers that --set-weights adds to "
        "HAProxy (2.5 or later); an empty text adds them without keywords",
        unset="no server is added",
    ),
    Setting(
        name="key-file",
        metavar="FILE",
        help="File of this load balancer's key (`steelyard keys lb NAME`), or of the shared key",
        unset="unsigned reports",
    ),
    Setting(
        name="set-weights",
        help="Set weights and states over the socket, in place of the agent-check; needs `level admin`",
        unset="off",
    ),
    Setting(name="once", help="Print one report of each upstream as JSON and exit; send and set nothing"),
    Setting(name="verbose", help="Log every report", unset="off"),
)

STATUSES = {
    0: "stopped by a signal, or the reports were printed",
    1: "--once had nothing to report, or was interrupted",
    2: "wrong flag, environment variable or file",
    7: "the output cannot be written: the disk is full, or standard output is closed",
    130: "ended by ctrl-C before it had begun",
}
"""The exit statuses; docs/reference/exit-status.md has the same."""

FLAGS = Flags(
    program="steelyard-reporter",
    prefix="STEELYARD_REPORTER",
    about=ABOUT,
    settings=SETTINGS,
    secrets=("key",),
    operand=("balancer", "haproxy", "Load balancer whose traffic is reported"),
    examples=(
        "steelyard-reporter haproxy --memcached 10.0.0.5:11211",
        "steelyard-reporter haproxy --upstreams web=be_web --set-weights",
        "steelyard-reporter haproxy --once   # one report as JSON; sends and sets nothing",
    ),
    statuses=STATUSES,
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
    """Return the settings; raise `SettingsError` for wrong ones."""
    given = program_settings.collect(FLAGS, FLAGS.parse(arguments), environment)
    key_file = given.optional("key-file", Path)
    settings = Settings(
        sockets=given.value("socket", _sockets),
        upstreams=given.value("upstreams", _upstreams),
        lb=given.optional("lb", setting_values.name) or hostname,
        memcached=given.value("memcached", setting_values.servers),
        interval_s=given.value("interval", setting_values.number("seconds", 0.1, 60.0)),
        set_weights=given.switch("set-weights"),
        add_servers=given.optional("add-servers", _keywords),
        once=given.switch("once"),
        verbose=given.switch("verbose"),
        key=FLAGS.secret("key", environment, signature.key_of_variable, file=key_file),
        key_file=key_file,
    )
    given.raise_mistakes()
    if not wire.is_name(settings.lb):
        raise SettingsError(
            f"--lb: the host name {settings.lb!r} cannot be a load balancer's name: give --lb NAME"
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
            raise ValueError(f"{name} occurs twice: a report is of one backend")
        backends[name] = backend or name
        if not wire.is_name(backends[name]):
            raise ValueError(f"{backend!r} cannot be a backend's name here: use letters, digits, . _ and -")
    return backends


def _keywords(text: str) -> str:
    if not _KEYWORDS.fullmatch(text):
        raise ValueError("give server keywords of haproxy.cfg, such as 'check inter 2s'")
    return text.strip()
