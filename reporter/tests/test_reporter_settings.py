"""Settings come from flags, else the environment, else defaults; a mistake is one line with the remedy."""

from pathlib import Path

import pytest
from steelyard_protocol.program_settings import SettingsError
from steelyard_reporter import settings
from steelyard_reporter.settings import Settings


def _load(line: str = "", **environment: str) -> Settings:
    return settings.load(["haproxy", *line.split()], environment, hostname="edge-1")


def test_defaults() -> None:
    chosen = _load()
    assert chosen.sockets == (Path("/run/haproxy/admin.sock"),)
    assert chosen.upstreams == {"web": "web"}
    assert (chosen.lb, chosen.interval_s, chosen.set_weights, chosen.add_servers) == (
        "edge-1",
        1.0,
        False,
        None,
    )


def test_sockets_and_upstreams_may_be_several() -> None:
    chosen = _load("--socket /run/a.sock,127.0.0.1:9999 --upstreams web=be_web,shop")
    assert chosen.sockets == (Path("/run/a.sock"), ("127.0.0.1", 9999))
    assert chosen.upstreams == {"web": "be_web", "shop": "shop"}


def test_a_flag_is_stronger_than_its_variable_and_an_empty_one_is_none() -> None:
    assert _load("--lb a", STEELYARD_REPORTER_LB="b").lb == "a"
    assert _load(STEELYARD_REPORTER_LB="b").lb == "b"
    assert _load(STEELYARD_REPORTER_LB="").lb == "edge-1"
    assert _load(STEELYARD_MEMCACHED="10.0.0.5").memcached == (("10.0.0.5", 11211),)


def test_servers_may_be_added_without_keywords() -> None:
    chosen = settings.load(["haproxy", "--set-weights", "--add-servers", ""], {}, hostname="edge-1")
    assert chosen.add_servers == ""


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("--socket admin.sock", "--socket is 'admin.sock': give a path from the root"),
        ("--upstreams web,web=b", "web occurs twice"),
        ("--upstreams web=a;b", "cannot be a backend's name"),
        ("--interval 0", "give seconds within 0.1..60"),
        ("--lb -x", "expected one argument"),
        ("--add-servers check", "--add-servers goes with --set-weights"),
        ("--set-weights --add-servers a;b", "give server keywords of haproxy.cfg"),
        ("--set-weight", "--help lists the flags"),
    ],
)
def test_a_mistake_is_named_with_the_remedy(line: str, remedy: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        _load(line)
    assert remedy in str(wrong.value)


def test_a_key_is_given_in_one_way() -> None:
    with pytest.raises(SettingsError, match="leave one out"):
        _load("--key-file /x", STEELYARD_REPORTER_KEY="0123456789abcdef")
    with pytest.raises(SettingsError, match="openssl"):
        _load(STEELYARD_REPORTER_KEY="short")
