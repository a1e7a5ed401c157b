import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from steelyard_controller import settings
from steelyard_controller.settings import Settings
from steelyard_protocol.program_settings import SettingsError


def load(arguments: Sequence[str]) -> Settings:
    return settings.load(arguments, os.environ)


def _file(folder: Path, text: str) -> list[str]:
    path = folder / "steelyard.yaml"
    path.write_text(text)
    return ["--config", str(path)]


def test_defaults_are_useful() -> None:
    chosen = load([])
    assert (chosen.api_port, chosen.memcached, chosen.tick_s) == (8081, "127.0.0.1:11211", 1.0)


def test_an_installation_has_a_name_that_fits_into_keys() -> None:
    assert load([]).installation == ""
    assert load(["--installation", "shop-eu.1"]).installation == "shop-eu.1"
    for name in ("a b", "a:b", "", "x" * 65):
        with pytest.raises(SettingsError, match=r"--installation is .*: give at most 64 letters"):
            load(["--installation", name])


def test_a_flag_is_stronger_than_the_environment_than_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = _file(tmp_path, "api_port: 1001\ntick_s: 2\nmemcached: '10.0.0.9:11211'\n")
    monkeypatch.setenv("STEELYARD_API_PORT", "1002")
    monkeypatch.setenv("STEELYARD_TICK_S", "3")
    chosen = load([*arguments, "--api-port", "1003"])
    assert (chosen.api_port, chosen.tick_s, chosen.memcached) == (1003, 3.0, "10.0.0.9:11211")


def test_what_kubernetes_sets_for_a_service_called_steelyard_api_is_no_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STEELYARD_API_PORT", "tcp://10.0.0.1:8081")
    assert load([]).api_port == 8081
    monkeypatch.setenv("STEELYARD_API_PORT", "9081")
    assert load([]).api_port == 9081


def test_a_redis_url_that_cannot_be_read_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STEELYARD_STATE_URL", "redis://:se:cret@host:notaport/0")
    with pytest.raises(SettingsError, match=r"STATE_URL \(--state-url\): .*cannot be read") as refused:
        load([])
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@host:6379/0",
        "rediss://user:secret@host:notaport/0",
        "unix://:secret@/run/redis",
        "redis://host/0?db=1&password=secret",
        "redis+sentinel://:secret@host/main",
        "rediss+sentinel://host/main?sentinel_password=secret",
        "redis+cluster://:secret@host",
    ],
)
def test_a_redis_password_in_a_flag_is_refused_and_not_repeated(url: str) -> None:
    for arguments in (["--state-url", url], [f"--state-url={url}"]):
        with pytest.raises(SettingsError, match=r"process lists.*--state-password-file") as refused:
            load(arguments)
        assert "secret" not in str(refused.value)
    assert load(["--state-url", "redis://user@host:6379/0"]).state_url == "redis://user@host:6379/0"


@pytest.mark.parametrize(
    "secret", ["key", "admin-token", "agent-token", "read-token", "state-password", "sentinel-password"]
)
def test_a_secret_is_no_flag(secret: str) -> None:
    with pytest.raises(SettingsError, match=f"--{secret}: flags show in process lists"):
        load([f"--{secret}", "x" * 20])


@pytest.mark.parametrize(
    "secret", ["key", "admin_token", "agent_token", "read_token", "state_password", "sentinel_password"]
)
def test_a_secret_stands_not_in_the_file_and_comes_only_one_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    with pytest.raises(SettingsError, match=f"line 1: {secret} is no setting: put the {secret} into a file"):
        load(_file(tmp_path, f"{secret}: {'x' * 20}\n"))
    monkeypatch.setenv(f"STEELYARD_{secret.upper()}", "x" * 20)
    with pytest.raises(SettingsError, match=f"STEELYARD_{secret.upper()} and --.* are both set"):
        load([f"--{secret.replace('_', '-')}-file", "/nowhere"])


def test_an_advertised_url_tells_no_password() -> None:
    with pytest.raises(SettingsError, match=r"^--advertise-url is 'http://…@10") as refused:
        load(["--advertise-url", "http://user:secret@10.0.0.5:8081"])
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["ftp://10.0.0.1", "10.0.0.1:8081", "http://"])
def test_an_advertised_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"--advertise-url is .*give http://HOST:PORT"):
        load(["--advertise-url", url])


def test_the_file_can_be_named_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_CONFIG", _file(tmp_path, "tick_s: 2\n")[1])
    assert load([]).tick_s == 2.0


def test_upstreams_come_from_the_file(tmp_path: Path) -> None:
    chosen = load(
        _file(
            tmp_path, "upstreams: {web: {law: static, peers: [{id: a, address: '10.0.0.1:80', baseline: 2}]}}"
        )
    )
    assert chosen.upstreams["web"].peers[0].baseline == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "upstreams: {web: {peers: [{id: a, address: web-1}]}}",
            r"line 1: upstreams\.web\.peers\.0\.address: .*has no port",
        ),
        ("upstreams: {web: {peers: [{id: a b, address: '10.0.0.1:80'}]}}", r"web\.peers\.0\.id: "),
        ("upstreams: {web: {law: magic}}", r"upstreams\.web: there is no law 'magic'; choose one of"),
        ("upstreams: {web: {law: static, shadows: {static: {}}}}", "law static is named twice"),
        (
            "upstreams: {web: {blend: {law: paper, percent: 101}}}",
            r"web\.blend\.percent: 101 must be at most 100",
        ),
        ("upstreams: {web: {shadows: {paper: {Q: 1}}}}", r"upstreams\.web: .*Q"),
        (
            "upstreams: {web: {laws: static}}",
            r"upstreams\.web\.laws: there is no such field; did you mean law\?",
        ),
        (
            "upstreams: {web: {peers: [{id: a, address: '1.1.1.1:1'}, {id: a, address: '1.1.1.2:1'}]}}",
            "share an id: a",
        ),
        ("tick_s: 0", r"steelyard\.yaml, line 1: tick_s is '0': give seconds within 0\.1\.\.60"),
        ("state_url: mysql://x", "state_url: write it as redis://"),
        ("memcached: 'nowhere:x'", "memcached is 'nowhere:x': give HOST:PORT"),
        ("load_balancers: 'edge-1,,edge-2'", "load_balancers is .*: '' is no name of a load balancer"),
        ("kubernetes_claims: {shop: ['we b']}", r"kubernetes_claims\.shop\.0: "),
        ("tik_s: 1", "line 1: tik_s is no setting: write tick_s"),
        (
            "derived_keys: off",
            "line 1: derived_keys is read as true or false: a word such as off needs quotes",
        ),
        ("api_host: [a, b]", "line 1: api_host takes one value, not a list"),
        ("key_file:", "line 1: key_file has no value: give one, or leave the key out"),
        ("[1, 2]", "must hold keys such as"),
        ("a: [", "is not YAML"),
        ("tick_s: 1\nid: 2001-02-30", "line 2: it is not YAML: no such date, number or other value"),
        (f"tick_s: {'9' * 5000}", "line 1: it is not YAML: no such date, number"),
        ("tick_s: !!bool maybe", "line 1: it is not YAML: no such date, number"),
        ("tick_s: !!timestamp maybe", "line 1: it is not YAML: no such date, number"),
        ("tick_s: !!int ''", "line 1: it is not YAML: no such date, number"),
        ("1: 2", 'line 1: the key 1 is read as a number: put it in quotes, "1"'),
        (
            "tick_s: 1\ntick_s: 2",
            "line 2: the key tick_s occurs twice in one mapping, first in line 1: leave",
        ),
        (
            "upstreams:\n  web: {law: static}\n  web: {law: paper}",
            "line 3: the key web occurs twice in one mapping, first in line 2: leave one out",
        ),
        ("upstreams: {no: {}}", 'line 1: the key no is read as true or false: put it in quotes, "no"'),
        (
            "upstreams:\n  web:\n    max_conns: yes",
            r"line 3: upstreams\.web\.max_conns: true is not a whole number: write it without quotes",
        ),
        ("upstreams: {web: {parameters: {H: '0.3'}}}", r'"0\.3" is not a number: write it without quotes'),
        ("a: 1\x0b", "is not YAML: unacceptable character"),
        ("[" * 1000, "nested too deeply"),
    ],
)
def test_a_mistake_names_the_field_and_the_remedy(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(_file(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "STEELYARD_UPSTREAMS: it is not JSON: "),
        ('{"web": {}, "web": {}}', "STEELYARD_UPSTREAMS: 'web' occurs twice in one object: leave one out"),
        ('{"web": {"parameters": {"H": NaN}}}', "STEELYARD_UPSTREAMS: NaN is no JSON number"),
        ("[" * 20_000, "STEELYARD_UPSTREAMS: its arrays or objects are nested too deeply"),
        (r'{"web": {"a\nb": 5}}', r"STEELYARD_UPSTREAMS: upstreams.web.a\nb: there is no such field"),
    ],
)
def test_a_mistake_in_a_variable_with_json_is_one_line(
    monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setenv("STEELYARD_UPSTREAMS", text)
    with pytest.raises(SettingsError) as raised:
        load([])
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_an_empty_list_is_an_empty_text(tmp_path: Path) -> None:
    assert load(_file(tmp_path, "load_balancers: []")).load_balancers == ()


def test_what_namespaces_may_claim_comes_from_the_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load([]).kubernetes_claims is None
    assert load(_file(tmp_path, "kubernetes_claims: {shop: [web]}")).kubernetes_claims == {"shop": ["web"]}
    monkeypatch.setenv("STEELYARD_KUBERNETES_CLAIMS", '{"pay": ["pay-*"]}')
    assert load([]).kubernetes_claims == {"pay": ["pay-*"]}


def test_that_no_load_balancer_is_expected_can_be_said() -> None:
    assert load(["--load-balancers", ""]).load_balancers == ()


KEY = "secret-" * 5


def test_the_shared_key_comes_from_the_environment_and_is_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert load([]).key is None
    monkeypatch.setenv("STEELYARD_KEY", KEY)
    chosen = load([])
    assert chosen.key == KEY.encode()
    assert "secret" not in f"{chosen!r} {chosen}"


def test_the_shared_keys_file_is_a_setting_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load(_file(tmp_path, "key_file: /run/a\n")).key_file == Path("/run/a")
    monkeypatch.setenv("STEELYARD_KEY_FILE", "/run/b")
    assert load([]).key_file == Path("/run/b")
    assert load(["--key-file", "/run/c"]).key_file == Path("/run/c")


@pytest.mark.parametrize("key", ["", "secret", "secretsecret123\n"])
def test_a_key_that_is_too_short_is_an_error_that_does_not_show_it(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("STEELYARD_KEY", key)
    with pytest.raises(SettingsError, match=r"^STEELYARD_KEY: a key has at least 16 bytes") as raised:
        load([])
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("flag", [["--key", KEY], [f"--key={KEY}"]])
def test_the_key_as_a_flag_is_refused(flag: list[str]) -> None:
    with pytest.raises(SettingsError, match="--key: flags show in process lists: use STEELYARD_KEY"):
        load(flag)


def test_the_key_in_the_yaml_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="key is no setting: put the key into a file of its own"):
        load(_file(tmp_path, f"key: {KEY}\n"))


def test_two_keys_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_KEY", KEY)
    with pytest.raises(SettingsError, match=r"STEELYARD_KEY and --key-file .* are both set") as raised:
        load(["--key-file", "/run/key"])
    assert "secret" not in str(raised.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(SettingsError, match=r"/nowhere\.yaml cannot be read: No such file"):
        load(["--config", "/nowhere.yaml"])


@pytest.mark.parametrize(
    ("text", "namespaces"),
    [("all", ()), ("shop", ("shop",)), (" shop, payments ,shop", ("shop", "payments")), ("", ()), (" ", ())],
)
def test_kubernetes_is_asked_about_all_namespaces_or_some(
    text: str, namespaces: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_KUBERNETES", text)
    chosen = load([])
    assert chosen.namespaces == namespaces
    assert bool(chosen.kubernetes) == bool(text.strip())


@pytest.mark.parametrize("text", ["Shop", "a,,b", "shop;payments", "*", "x" * 64, "-a", "all,shop"])
def test_what_is_no_namespace_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^--kubernetes is "):
        load([f"--kubernetes={text}"])


def test_every_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    text = """\
tick_s: 0
memcached: [10.0.0.1:11211, 10.0.0.2:x]
upstreams:
  web:
    law: static
    peers:
      - {id: a, address: '10.0.0.1:80'}
      - id: b
        address: '10.0.0.2:80'
        baseline: -1
"""
    with pytest.raises(SettingsError) as wrong:
        load([*_file(tmp_path, text), "--api-port", "x"])
    lines = str(wrong.value).replace(f"{tmp_path}/", "").splitlines()
    assert sorted(line.split(": ")[0] for line in lines) == [
        "--api-port is 'x'",
        "steelyard.yaml, line 1",
        "steelyard.yaml, line 10",
        "steelyard.yaml, line 2",
    ]


def test_a_file_whose_variable_is_empty_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    # A secret that failed to arrive must not turn the check off.
    monkeypatch.setenv("STEELYARD_KEY_FILE", "")
    with pytest.raises(SettingsError, match=r"^STEELYARD_KEY_FILE \(--key-file\) is '': give the path"):
        load([])


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_API_PORT", "")
    assert load([]).api_port == 8081
    monkeypatch.setenv("STEELYARD_LOAD_BALANCERS", "")
    assert load([]).load_balancers == ()
