"""Flags, environment, TOML file, defaults."""

from collections.abc import Callable
from pathlib import Path

import pytest
from steelyard_agent import settings
from steelyard_agent.flags import FLAGS
from steelyard_agent.registration import register_flags
from steelyard_agent.registration.register_flags import Url
from steelyard_agent.registration.register_request import RegisterSettings, Registration
from steelyard_agent.sample import NOTHING, Indicators
from steelyard_agent.settings import Settings
from steelyard_protocol.program_settings import SettingsError

TOKEN = FLAGS.variable("token")


def file_of(text: str) -> Callable[[Path], bytes]:
    return lambda _path: text.encode()


def no_file(path: Path) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", str(path))


def load(*arguments: str, toml: str | None = None, **environment: str) -> Settings:
    read = no_file if toml is None else file_of(toml)
    return settings.load(arguments, environment, hostname="node-7", read=read)


def load_file(text: str, *arguments: str, **environment: str) -> Settings:
    return load("--config", "a.toml", *arguments, toml=text, **environment)


def test_everything_has_a_default() -> None:
    assert load() == Settings(
        upstream="web",
        peer="node-7",
        memcached=(("127.0.0.1", 11211),),
        interval_s=1.0,
        scope="auto",
        limits=NOTHING,
        pid=None,
        pid_file=None,
        listen_port=None,
        unit=None,
        orca_file=None,
        orca_address=None,
        register=None,
        once=False,
        explain=False,
        verbose=False,
        key=None,
        key_file=None,
    )


def test_every_flag_is_read() -> None:
    line = (
        "--upstream api --peer s-1 --memcached a:1,[::1]:2,b --interval 0.5 --scope process"
        " --pid-file /run/x.pid --cpu-limit 0.5 --mem-limit 2e9 --net-capacity 125000000 --io-capacity 5000"
        " --orca /run/x.orca,:9811 --key-file /run/key --once --explain --verbose"
        " --register http://a:8081,https://b/x/ --address 10.0.0.11:80 --baseline 2.5 --token-file /run/token"
        " --deregister"
    )
    assert load(*line.split()) == Settings(
        upstream="api",
        peer="s-1",
        memcached=(("a", 1), ("::1", 2), ("b", 11211)),
        interval_s=0.5,
        scope="process",
        limits=Indicators(cpu=0.5, mem=2e9, net=125e6, io=5000.0),
        pid_file=Path("/run/x.pid"),
        orca_file=Path("/run/x.orca"),
        orca_address=("127.0.0.1", 9811),
        register=RegisterSettings(
            urls=(Url("http", "a", 8081), Url("https", "b", 443, "/x")),
            wanted=Registration(upstream="api", peer="s-1", address=("10.0.0.11", 80), baseline=2.5),
            token_file=Path("/run/token"),
            deregister=True,
        ),
        once=True,
        explain=True,
        verbose=True,
        key_file=Path("/run/key"),
    )


def test_every_setting_can_stand_in_the_file() -> None:
    text = """
        upstream = "api"
        peer = "s-1"
        memcached = ["a:1", "[::1]:2", "b"]
        interval = 0.5
        scope = "process"
        unit = "nginx"
        cpu_limit = 2
        mem_limit = 2e9
        net_capacity = 125_000_000
        io_capacity = "5000"
        orca = ["/run/x.orca", "[::1]:9811"]
        key_file = "/run/key"
        verbose = true
        register = ["http://a:8081", "https://[::1]"]
        address = "auto:8080"
        baseline = 2
        token_file = "/run/token"
        deregister = true
    """
    assert load_file(text) == Settings(
        upstream="api",
        peer="s-1",
        memcached=(("a", 1), ("::1", 2), ("b", 11211)),
        interval_s=0.5,
        scope="process",
        limits=Indicators(cpu=2.0, mem=2e9, net=125e6, io=5000.0),
        unit="nginx.service",
        orca_file=Path("/run/x.orca"),
        orca_address=("::1", 9811),
        register=RegisterSettings(
            urls=(Url("http", "a", 8081), Url("https", "::1", 443)),
            wanted=Registration(upstream="api", peer="s-1", address=("auto", 8080), baseline=2.0),
            token_file=Path("/run/token"),
            deregister=True,
        ),
        verbose=True,
        key_file=Path("/run/key"),
    )


def test_a_flag_is_stronger_than_the_environment_and_that_than_the_file_and_that_than_the_default() -> None:
    environment = {"STEELYARD_AGENT_UPSTREAM": "from-environment"}
    text = 'upstream = "from-file"\ncpu_limit = 2'
    assert load_file(text, "--upstream", "from-flag", **environment).upstream == "from-flag"
    assert load_file(text, **environment).upstream == "from-environment"
    assert load_file(text).upstream == "from-file"
    assert load().upstream == "web"
    assert load_file(text, "--upstream", "from-flag", **environment).limits.cpu == 2.0


def test_the_file_is_named_by_a_flag_or_by_the_environment() -> None:
    assert load(toml='peer = "s-2"', STEELYARD_AGENT_CONFIG="/etc/x.toml").peer == "s-2"
    assert load(toml='peer = "s-2"').peer == "node-7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'upstrem = "web"',
            "a.toml, line 1: upstrem is no setting: write upstream",
        ),
        ("net-capacity = 1", "a.toml, line 1: net-capacity is no setting: write net_capacity"),
        ("once = true", "a.toml, line 1: once is no setting; write address, baseline, cpu_limit, "),
        ("explain = true", "a.toml, line 1: explain is no setting"),
        ('config = "b.toml"', "a.toml, line 1: config is no setting"),
        ('"a\\nb" = 1', r"a.toml: a\nb is no setting; write address, "),
        ('upstream = ["a"]', "a.toml, line 1: upstream takes one value, not a list"),
        (
            "upstream = true",
            "a.toml, line 1: upstream is read as true or false: a word such as off needs quotes",
        ),
        ('verbose = ["yes"]', "a.toml, line 1: verbose takes one value, not a list"),
        ("memcached = []", "a.toml, line 1: memcached is an empty list: give a value, or leave the key out"),
        (f"interval = 0x{'f' * 5000}", "a.toml, line 1: interval is too large a number"),
        (r'orca = "/run/a\u0000b"', "a.toml, line 1: orca has a control character, such as a line break"),
        (f"a = {'[' * 5000}", "a.toml: its lists or tables are nested too deeply"),
        ('key = "secret"', "a.toml, line 1: key is no setting: put the key into a file of its own"),
        ('token = "secret"', "a.toml, line 1: token is no setting: put the token into a file of its own"),
        ("[agent]\ninterval = 1", "a.toml, line 1: agent is no setting"),
        ("interval = 90", "a.toml, line 1: interval is '90': give seconds within 0.1..60"),
        ("interval = nan", "a.toml, line 1: interval is 'nan': give seconds within 0.1..60"),
        ("interval = true", "a.toml, line 1: interval is read as true or false"),
        ("interval = {s = 1}", "a.toml, line 1: interval is neither text, a number, true or false"),
        ("memcached = [1]", "a.toml, line 1: memcached is neither text"),
        ("peer = 1979-05-27", "a.toml, line 1: peer is neither text"),
        ("interval = ", "a.toml: it is not TOML: "),
        (
            "interval = 1\ninterval = 2",
            "a.toml: it is not TOML: Cannot overwrite a value (at line 2, column 13): a key or table occurs",
        ),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_key_and_the_file(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_file(text)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_every_mistake_is_named_with_its_line() -> None:
    with pytest.raises(SettingsError) as raised:
        load_file('# the agent of web\nupstrem = "web"\ninterval = 90\n', "--baseline", "0")
    assert str(raised.value).splitlines() == [
        "a.toml, line 2: upstrem is no setting: write upstream",
        "a.toml, line 3: interval is '90': give seconds within 0.1..60",
        "--baseline is '0': give a weight, such as 1, within 1e-06..1e+06",
    ]


def test_a_file_that_is_not_text_or_not_there_is_one_line() -> None:
    with pytest.raises(SettingsError, match=r"^--config: a\.toml cannot be read: No such file or directory$"):
        load("--config", "a.toml")
    with pytest.raises(SettingsError, match=r"^a\.toml: it is not UTF-8$"):
        settings.load(["--config", "a.toml"], {}, hostname="x", read=lambda _path: b'peer = "\xff"')


def test_memcached_comes_from_the_variable_that_all_parts_share() -> None:
    assert load(STEELYARD_MEMCACHED="10.0.0.9:11311").memcached == (("10.0.0.9", 11311),)


def test_a_server_that_is_named_twice_is_one_server() -> None:
    assert load("--memcached", "a:1,b:2,a:1").memcached == (("a", 1), ("b", 2))


def test_samples_may_be_shown_alone() -> None:
    chosen = load("--memcached", "none", "--orca-grpc", ":9812")
    assert (chosen.memcached, chosen.orca_grpc) == ((), ("127.0.0.1", 9812))


RATE = '[rps_fractional]\nfile = "/run/app/requests"'


def test_rates_stand_in_the_file_beside_indicators() -> None:
    text = f'orca_grpc = ":9812"\n{RATE}\n[[indicator]]\nname = "queue"\nfile = "/run/app/queue"\nlimit = 5'
    chosen = load_file(text)
    assert [one.name for one in chosen.indicators] == ["queue"]
    assert [one.name for one in chosen.rates] == ["rps_fractional"]


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        (RATE, "", "[rps_fractional] is for load reports (ORCA): add --orca-grpc or --orca"),
        ('peer = "a"', "--memcached none", "--memcached none sends no sample anywhere: add --orca-grpc or"),
        (f"{RATE}\nlimit = 1", "--orca :1", "a.toml: [rps_fractional]: 'limit' is no key of it"),
        ("eps = 3", "--orca :1", "a.toml: [eps]: it is a table"),
        ("[rps]", "", "a.toml, line 1: rps is no setting; write address, "),
    ],
)
def test_a_rate_that_nobody_sees_is_refused(text: str, flags: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_file(text, *flags.split())
    assert str(raised.value).startswith(message)


def test_the_key_comes_from_the_environment_as_it_is_or_as_a_file() -> None:
    assert load().key is None
    assert load(STEELYARD_AGENT_KEY="k" * 32).key == b"k" * 32
    assert load(STEELYARD_AGENT_KEY_FILE="/run/key").key_file == Path("/run/key")
    assert load("--key-file", "/run/key").key_file == Path("/run/key")


def test_the_key_is_no_flag_and_is_never_shown() -> None:
    with pytest.raises(
        SettingsError, match="--key: flags show in process lists: use STEELYARD_AGENT_KEY or --key-file"
    ):
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


def test_a_variable_that_kubernetes_makes_for_a_service_of_our_name_is_no_setting() -> None:
    assert load(STEELYARD_AGENT_PORT="tcp://10.0.0.1:80") == load()


def test_switches_are_words_in_the_environment() -> None:
    assert load(STEELYARD_AGENT_VERBOSE="true").verbose
    assert not load(STEELYARD_AGENT_VERBOSE="0").verbose


def test_a_process_may_be_named_in_four_ways() -> None:
    assert load("--scope", "process", "--pid", "4711").pid == 4711
    assert load("--scope", "process", "--pid-file", "x").pid_file == Path("x")
    assert load("--scope", "process", "--listen-port", "8080").listen_port == 8080
    assert load("--scope", "process", "--unit", "app@1.socket").unit == "app@1.socket"


def test_a_process_that_a_stronger_place_names_takes_the_place_of_a_weaker_ones() -> None:
    text = 'scope = "process"\nunit = "nginx"'
    chosen = load_file(text, "--pid", "4711")
    assert (chosen.pid, chosen.unit) == (4711, None)
    chosen = load_file(text, STEELYARD_AGENT_PID_FILE="x")
    assert (chosen.pid_file, chosen.unit) == (Path("x"), None)


@pytest.mark.parametrize(
    ("text", "file", "address"),
    [
        ("/run/orca", Path("/run/orca"), None),
        ("./orca", Path("orca"), None),
        (":9811", None, ("127.0.0.1", 9811)),
        ("0.0.0.0:9811", None, ("0.0.0.0", 9811)),  # noqa: S104
        ("[::1]:9811, /run/orca", Path("/run/orca"), ("::1", 9811)),
    ],
)
def test_orca_is_a_file_or_an_address_or_both(
    text: str, file: Path | None, address: tuple[str, int] | None
) -> None:
    chosen = load("--orca", text)
    assert (chosen.orca_file, chosen.orca_address) == (file, address)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--interval abc", "--interval is 'abc': give seconds within 0.1..60"),
        ("--interval 0", "--interval is '0': give seconds within 0.1..60"),
        ("--interval nan", "--interval is 'nan': give seconds within 0.1..60"),
        ("--upstream a:b", "--upstream is 'a:b': a name is 1 to 64 letters"),
        ("--scope galaxy", "--scope is 'galaxy': give auto, host, cgroup, process or pods"),
        ("--cpu-limit -1", "--cpu-limit is '-1': give cores"),
        ("--mem-limit inf", "--mem-limit is 'inf': give bytes"),
        ("--net-capacity 0", "--net-capacity is '0': give bytes/s"),
        ("--io-capacity x", "--io-capacity is 'x': give operations/s"),
        ("--memcached host:port", "--memcached is 'host:port': give HOST:PORT"),
        ("--memcached host:70000", "--memcached is 'host:70000': give HOST:PORT"),
        ("--memcached a,,b", "--memcached is 'a,,b': give HOST:PORT"),
        ("--memcached [::1", "--memcached is '[::1': give HOST:PORT"),
        ("--orca orca", "--orca is 'orca': give a file"),
        ("--orca 9811", "--orca is '9811': give a file"),
        ("--orca :0", "--orca is ':0': give a file"),
        ("--orca :1,:2", "--orca is ':1,:2': give a file"),
        ("--pid 12", "--pid is for one process: add --scope process"),
        ("--scope cgroup --unit x", "--unit is for one process: add --scope process"),
        (
            "--scope process",
            "--scope process needs --pid N, --pid-file FILE, --listen-port PORT or --unit NAME",
        ),
        ("--scope process --pid 1 --pid-file x", "--pid and --pid-file both name a process: give one"),
        ("--scope process --pid 0", "--pid is '0': give the number of a process"),
        ("--scope process --pid ²", "--pid is '²': give the number of a process"),
        ("--scope process --listen-port 70000", "--listen-port is '70000': give a port"),
        ("--scope process --unit ../x", "--unit is '../x': give the name of a systemd unit"),
        ("--register ftp://a", "--register is 'ftp://a': give http://HOST:PORT"),
        ("--register a:8081", "--register is 'a:8081': give http://HOST:PORT"),
        ("--register http://a:0", "--register is 'http://a:0': give http://HOST:PORT"),
        ("--register http://a?b=c", "--register is 'http://a?b=c': give http://HOST:PORT"),
        ("--register http://[:]", "--register is 'http://[:]': give http://HOST:PORT"),
        ("--register http://a,", "--register is 'http://a,': give http://HOST:PORT"),
        ("--register http://me:secret@a", "--register is 'http://…@a': give http://HOST:PORT"),
        ("--register http://a", "--register needs --address"),
        ("--address 10.0.0.1:80", "--address is for a server that registers itself: add --register URL"),
        ("--deregister", "--deregister is for a server that registers itself: add --register URL"),
        ("--register http://a --address 10.0.0.1", "--address is '10.0.0.1': give auto:PORT, or HOST:PORT"),
        ("--register http://a --address fd00::1:80", "--address is 'fd00::1:80': give auto:PORT, or HOST"),
        ("--register http://a --address web_1:80", "--address is 'web_1:80': give auto:PORT, or HOST:PORT"),
        ("--register http://a --address 0.0.0.0:80", "--address is '0.0.0.0:80': nginx cannot connect"),
        ("--register http://a --address [::]:80", "--address is '[::]:80': nginx cannot connect"),
        ("--register http://a --address a:1 --baseline 0", "--baseline is '0': give a weight"),
        ("--peers x", "unrecognized arguments: --peers x (steelyard-agent --help lists the flags)"),
        ("--interval", "argument --interval: expected one argument"),
    ],
)
def test_a_bad_flag_is_one_line_with_the_remedy(arguments: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(*arguments.split())
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_a_bad_variable_is_named_beside_its_flag() -> None:
    with pytest.raises(SettingsError, match=r"^STEELYARD_AGENT_INTERVAL \(--interval\) is 'x': give seconds"):
        load(STEELYARD_AGENT_INTERVAL="x")


def test_a_host_name_that_cannot_be_a_peers_name_asks_for_one() -> None:
    with pytest.raises(SettingsError, match=r"--peer: the host name '-x' .* give --peer NAME"):
        settings.load([], {}, hostname="-x", read=no_file)


def test_a_token_comes_from_the_environment_or_a_file_and_is_never_shown() -> None:
    line = ["--register", "http://a", "--address", "auto:80"]
    chosen = load(*line, **{TOKEN: " secret-token\n"}).register
    assert chosen is not None
    assert chosen.token == "secret-token"  # noqa: S105
    assert "secret" not in repr(chosen)
    chosen = load(*line, **{f"{TOKEN}_FILE": "/run/token"}).register
    assert chosen == RegisterSettings(
        urls=(Url("http", "a", 80),),
        wanted=Registration(upstream="web", peer="node-7", address=("auto", 80)),
        token_file=Path("/run/token"),
    )
    with pytest.raises(
        SettingsError, match="--token: flags show in process lists: use STEELYARD_AGENT_TOKEN or"
    ):
        load(*line, "--token", "x")
    with pytest.raises(SettingsError, match=r"STEELYARD_AGENT_TOKEN and --token-file .* leave one out"):
        load(*line, "--token-file", "x", **{TOKEN: "secret"})
    with pytest.raises(SettingsError, match=r"^STEELYARD_AGENT_TOKEN: a token is 1 to 1024 ASCII") as raised:
        load(*line, **{TOKEN: "sécret secret"})
    assert "secret" not in str(raised.value)


def test_a_token_alone_registers_nothing() -> None:
    # The controller reads the same variable: a common file of settings is no mistake.
    assert load(**{TOKEN: "secret"}) == load(**{TOKEN: ""}) == load()
    assert load(**{f"{TOKEN}_FILE": "/run/token"}) == load()


def test_a_file_of_several_tokens_gives_the_first() -> None:
    assert register_flags.token(b"\n  new-token \nold-token\n") == "new-token"
    for nothing in (b"", b"\n\n", b"two words", b"a\x00b"):
        with pytest.raises(ValueError, match="a token is"):
            register_flags.token(nothing)


def test_a_url_is_shown_as_it_was_given() -> None:
    given = "http://a:8081,https://[::1]:443,http://10.0.0.1:80/steelyard"
    assert ",".join(str(url) for url in register_flags.urls(given)) == given
    assert register_flags.urls("http://a, http://a:80/") == (Url("http", "a", 80),)
