"""What operators write: the agent's TOML, the controller's YAML, addresses, flags."""

import contextlib
import io
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from steelyard_agent import flag_values, register_values, signature, wire
from steelyard_agent import settings as agent
from steelyard_controller import settings as controller
from steelyard_controller.names import address

from steelyard_loadtest.fuzz.model import ACCEPTED, Target, require

REFUSED = "refused"


def targets() -> tuple[Target, ...]:
    """Return the decoders of settings."""
    return (
        Target(name="agent-toml",
               about="the agent's configuration file", form="text", seeds=TOML, judge=_toml),
        Target(name="controller-yaml", about="the controller's configuration file", form="text", seeds=YAML,
               judge=_Yaml()),
        Target(name="address", about="an address, of a server or of Memcached", form="text", seeds=ADDRESSES,
               judge=_address),
        Target(name="flag", about="a flag's text: URLs, numbers, units, switches", form="text", seeds=FLAGS,
               judge=_flag),
    )  # fmt: skip


TOML = (
    b'upstream = "web"\npeer = "server-1"\nmemcached = ["10.0.0.5:11211", "10.0.0.6"]\n'
    b"net_capacity = 125_000_000\n",
    b'scope = "process"\npid = 4711\ninterval = 0.5\norca = ":9811"\nverbose = true\nregister = "http://c:8081"\n'
    b'address = "auto:80"\nbaseline = 2\n',
)
YAML = (
    b"memcached: 10.0.0.5:11211\nstate_url: redis://10.0.0.6:6379/0\ntick_s: 1\nupstreams:\n"
    b"  web:\n    law: paper\n"
    b"    peers:\n      - {id: server-1, address: '10.0.0.11:80', baseline: 1}\n",
    b"log_level: info\napi_port: 8081\n"
    b"upstreams: {web: {shadows: {paper: {H: 0.3}}, picker: vnswrr, peers: []}}\n",
)
ADDRESSES = (
    b"10.0.0.11:80", b"[fd00::13]:8080", b"web-1.example:80", b"[::ffff:1.2.3.4]:1", b"a.b.c.:65535",
    b"0x7f000001:80",
)  # fmt: skip
FLAGS = (
    b"http://10.0.0.5:8081,https://[::1]/steelyard", b"0.25", b"1e3", b"nginx.service", b"yes",
    b"/run/orca,:9811",
    b"auto:80", b"127.0.0.1:11211,[::1]", b"a-secret-of-20-bytes",
)  # fmt: skip


def _toml(data: bytes) -> str:
    try:
        found = agent.load(["--config", "agent.toml"], {}, hostname="server-1", read=lambda _: data)
    except agent.SettingsError as error:
        require("\n" not in str(error), f"the message is not one line: {error}")
        return REFUSED
    require(
        wire.is_name(found.upstream) and wire.is_name(found.peer) and found.memcached, "it is half a setting"
    )
    return ACCEPTED


class _Yaml:
    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="steelyard-fuzz-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._file = Path(folder) / "controller.yaml"

    def __call__(self, data: bytes) -> str:
        self._file.write_bytes(data)
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                controller.load(["--config", str(self._file)])
        except controller.SettingsError as error:
            require(str(error), "it is refused without a reason")
            return REFUSED
        return ACCEPTED


def _address(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    outcomes = [
        _ok(address.parse, text),
        _ok(flag_values.servers, text),
        _ok(register_values.service_address, text),
    ]
    split = _split(text)
    if split is not None:
        ip, port = split
        require(
            address.split(address.join(ip, port)) == split, "it is another one after joining and splitting"
        )
        require(not address.parse(text).is_name, "it is an IP address and a name")
    return ACCEPTED if split is not None or any(outcomes) else REFUSED


def _split(text: str) -> tuple[str, int] | None:
    with contextlib.suppress(ValueError):
        return address.split(text)
    return None


def _flag(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    number = flag_values.number("a number", 0.1, 60.0)
    parsers: tuple[Callable[[str], object], ...] = (
        register_values.urls, number, flag_values.unit, flag_values.switch, flag_values.orca,
        flag_values.port,
        flag_values.pid, flag_values.scope, flag_values.name,
    )  # fmt: skip
    taken = [parser for parser in parsers if _ok(parser, text)]
    if number in taken:
        require(0.1 <= number(text) <= 60.0, "a number out of bounds was taken")
    secrets: tuple[Callable[[bytes], object], ...] = (register_values.token, signature.key_of)
    return ACCEPTED if taken or any(_ok_bytes(parser, data) for parser in secrets) else REFUSED


def _ok(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _ok_bytes(parse: Callable[[bytes], object], data: bytes) -> bool:
    try:
        parse(data)
    except ValueError:
        return False
    return True
