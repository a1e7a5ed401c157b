"""Operators' texts: the agent's TOML, the controller's YAML, addresses, flags."""

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from steelyard_agent import scope_values
from steelyard_agent import settings as agent
from steelyard_agent.registration import register_flags
from steelyard_controller import settings as controller
from steelyard_protocol import peer_address, setting_values, signature, wire
from steelyard_protocol.program_settings import SettingsError

from steelyard_resilience.fuzz.target import ACCEPTED, REFUSED, Target, judge_of, require, requiring

T = TypeVar("T")


def targets() -> tuple[Target, ...]:
    """Return the decoders of settings."""
    whole = requiring(
        lambda made: wire.is_name(made.upstream) and wire.is_name(made.peer) and made.memcached,
        "the settings are incomplete",
    )
    toml = judge_of(
        lambda data: agent.load(["--config", "agent.toml"], {}, hostname="server-1", read=lambda _: data),
        refuses=SettingsError, reason=_refused_toml, check=whole,
    )  # fmt: skip
    yaml = judge_of(_yaml(), refuses=SettingsError)
    return (
        Target("agent-toml", "the agent's configuration file", toml, TOML),
        Target("controller-yaml", "the controller's configuration file", yaml, YAML),
        Target("address", "an address, of a server or of Memcached", _address, ADDRESSES),
        Target("flag", "a flag's text: URLs, numbers, units, switches", _flag, FLAGS),
    )


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
    b"0x7f000001:80", b"10.0.0.0/8", b"fd00::/64", b"header:X-User",
)  # fmt: skip
FLAGS = (
    b"http://10.0.0.5:8081,https://[::1]/steelyard", b"0.25", b"1e3", b"nginx.service", b"yes",
    b"/run/orca,:9811", b"auto:80", b"127.0.0.1:11211,[::1]", b"a-secret-of-20-bytes",
)  # fmt: skip


def _refused_toml(refusal: object) -> str | None:
    if not isinstance(refusal, SettingsError):
        return None
    lines = str(refusal).splitlines()
    require(all(lines), f"a mistake is not one line: {refusal}")
    return REFUSED


def _yaml() -> Callable[[bytes], object]:
    folder = TemporaryDirectory(prefix="steelyard-fuzz-")  # removed at the end of this process

    def load(data: bytes) -> object:
        file = Path(folder.name, "controller.yaml")
        file.write_bytes(data)
        with contextlib.redirect_stderr(io.StringIO()):
            return controller.load(["--config", str(file)], {})

    return load


def _address(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    parsers = (peer_address.parse, setting_values.servers, register_flags.service_address)
    taken = [parser for parser in parsers if _takes(parser, text)]
    if _takes(peer_address.split, text):
        split = peer_address.split(text)
        again = peer_address.split(peer_address.join(*split))
        require(again == split, "it differs after joining and splitting")
        require(not peer_address.parse(text).is_name, "it is an IP address and a name")
        return ACCEPTED
    return ACCEPTED if taken else REFUSED


def _flag(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    number = setting_values.number("a number", 0.1, 60.0)
    parsers: tuple[Callable[[str], object], ...] = (
        register_flags.urls, number, scope_values.unit, setting_values.switch, scope_values.orca,
        setting_values.port, scope_values.pid, scope_values.scope, setting_values.name,
    )  # fmt: skip
    taken = [parser for parser in parsers if _takes(parser, text)]
    if number in taken:
        require(0.1 <= number(text) <= 60.0, "a number out of bounds was accepted")
    secrets: tuple[Callable[[bytes], object], ...] = (register_flags.token, signature.key_of)
    return ACCEPTED if taken or any(_takes(parser, data) for parser in secrets) else REFUSED


def _takes(parse: Callable[[T], object], value: T) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True
