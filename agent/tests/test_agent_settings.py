"""Flags, environment, defaults."""

from pathlib import Path

import pytest
from steelyard_agent import settings
from steelyard_agent.sample import NOTHING, Indicators
from steelyard_agent.settings import Settings, SettingsError


def load(*arguments: str, **environment: str) -> Settings:
    return settings.load(arguments, environment, hostname="node-7")


def test_everything_has_a_default() -> None:
    assert load() == Settings(
        upstream="web",
        peer="node-7",
        memcached=(("127.0.0.1", 11211),),
        interval_s=1.0,
        scope="host",
        pid=None,
        pid_file=None,
        limits=NOTHING,
        once=False,
        verbose=False,
    )


def test_every_flag_is_read() -> None:
    line = (
        "--upstream api --peer s-1 --memcached a:1,[::1]:2,b --interval 0.5 --scope process"
        " --pid-file /run/x.pid --cpu-limit 0.5 --mem-limit 2e9 --net-capacity 125000000 --io-capacity 5000"
        " --once --verbose"
    )
    assert load(*line.split()) == Settings(
        upstream="api",
        peer="s-1",
        memcached=(("a", 1), ("::1", 2), ("b", 11211)),
        interval_s=0.5,
        scope="process",
        pid=None,
        pid_file=Path("/run/x.pid"),
        limits=Indicators(cpu=0.5, mem=2e9, net=125e6, io=5000.0),
        once=True,
        verbose=True,
    )


def test_a_flag_is_stronger_than_the_environment_and_that_than_the_default() -> None:
    environment = {"STEELYARD_AGENT_UPSTREAM": "api", "STEELYARD_AGENT_CPU_LIMIT": "2"}
    assert load("--upstream", "web", **environment).upstream == "web"
    assert load(**environment).upstream == "api"
    assert load(**environment).limits.cpu == 2.0


def test_memcached_comes_from_the_variable_that_all_parts_share() -> None:
    assert load(STEELYARD_MEMCACHED="10.0.0.9:11311").memcached == (("10.0.0.9", 11311),)


def test_the_key_comes_from_the_environment_as_it_is_or_as_a_file() -> None:
    assert load().key is None
    assert load(STEELYARD_AGENT_KEY="k" * 32).key == b"k" * 32
    assert load(STEELYARD_AGENT_KEY_FILE="/run/key").key_file == Path("/run/key")
    assert load("--key-file", "/run/key").key_file == Path("/run/key")


def test_the_key_is_no_flag_and_is_never_shown() -> None:
    with pytest.raises(SettingsError, match="unrecognized arguments: --key"):
        load("--key", "x" * 32)
    assert "secret" not in repr(load(STEELYARD_AGENT_KEY="secret" * 8))


@pytest.mark.parametrize("key", ["", "secret", "secretsecret123", "secretsecret123\n"])
def test_a_key_that_is_too_short_is_an_error_that_does_not_show_it(key: str) -> None:
    with pytest.raises(SettingsError, match=r"^STEELYARD_AGENT_KEY: a key has at least 16 bytes") as raised:
        load(STEELYARD_AGENT_KEY=key)
    assert "secret" not in str(raised.value)


def test_two_keys_are_an_error() -> None:
    with pytest.raises(SettingsError, match=r"STEELYARD_AGENT_KEY and --key-file .* leave one out"):
        load("--key-file", "/run/key", STEELYARD_AGENT_KEY="k" * 32)


def test_an_empty_variable_is_not_set() -> None:
    assert load(STEELYARD_AGENT_INTERVAL="").interval_s == 1.0


def test_switches_are_words_in_the_environment() -> None:
    assert load(STEELYARD_AGENT_VERBOSE="true").verbose
    assert not load(STEELYARD_AGENT_VERBOSE="0").verbose


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--interval abc", "--interval is 'abc': give seconds within 0.1..60"),
        ("--interval 0", "--interval is '0': give seconds within 0.1..60"),
        ("--interval nan", "--interval is 'nan': give seconds within 0.1..60"),
        ("--upstream a:b", "--upstream is 'a:b': a name is 1 to 64 letters"),
        ("--scope galaxy", "--scope is 'galaxy': give host or process"),
        ("--cpu-limit -1", "--cpu-limit is '-1': give cores"),
        ("--mem-limit inf", "--mem-limit is 'inf': give bytes"),
        ("--net-capacity 0", "--net-capacity is '0': give bytes/s"),
        ("--io-capacity x", "--io-capacity is 'x': give operations/s"),
        ("--memcached host:port", "--memcached is 'host:port': give HOST:PORT"),
        ("--memcached host:70000", "--memcached is 'host:70000': give HOST:PORT"),
        ("--memcached a,,b", "--memcached is 'a,,b': give HOST:PORT"),
        ("--memcached [::1", "--memcached is '[::1': give HOST:PORT"),
        ("--pid 12", "--pid is for one process: add --scope process"),
        ("--scope process", "--scope process needs --pid N or --pid-file FILE"),
        (
            "--scope process --pid 1 --pid-file x",
            "--scope process needs --pid N or --pid-file FILE, not both",
        ),
        ("--scope process --pid 0", "--pid is '0': give the number of a process"),
        ("--scope process --pid ²", "--pid is '²': give the number of a process"),
        ("--peers x", "unrecognized arguments: --peers x (steelyard-agent --help lists the flags)"),
        ("--interval", "argument --interval: expected one argument"),
    ],
)
def test_a_bad_flag_is_one_line_with_the_remedy(arguments: str, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(*arguments.split())
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_a_bad_variable_is_named_beside_its_flag() -> None:
    with pytest.raises(SettingsError, match=r"^STEELYARD_AGENT_INTERVAL \(--interval\) is 'x': give seconds"):
        load(STEELYARD_AGENT_INTERVAL="x")


def test_a_host_name_that_cannot_be_a_peers_name_asks_for_one() -> None:
    with pytest.raises(SettingsError, match=r"--peer: the host name '-x' .* give --peer NAME"):
        settings.load([], {}, hostname="-x")
