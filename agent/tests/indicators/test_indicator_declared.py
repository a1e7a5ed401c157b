"""`[[indicator]]` in the TOML file: its declarations, and messages about mistakes."""

import re
import tomllib
from pathlib import Path

import pytest
from steelyard_agent.indicators import declared
from steelyard_agent.indicators.declared import Indicator, Source
from steelyard_agent.indicators.presets import PRESETS

ONE = """
[[indicator]]
name = "workers"
prometheus = "http://127.0.0.1:8000/metrics"
metric = "busy_workers"
limit = 8
"""


def parse(text: str, *, interval_s: float = 1.0) -> tuple[Indicator, ...]:
    return declared.parse(tomllib.loads(text)["indicator"], interval_s=interval_s)


def test_every_key_is_read() -> None:
    assert parse(
        """
        [[indicator]]
        name = "workers"
        prometheus = "https://localhost/metrics?all=1"
        metric = "busy_seconds_total"
        labels = { pool = "web", kind = "sync" }
        limit = "workers"
        across = "mean"
        rate = true
        every = 2.5
        """
    ) == (
        Indicator(
            name="workers",
            source=Source(kind="http", target="https://localhost/metrics?all=1", every_s=2.5),
            text_format="prometheus",
            amount="busy_seconds_total",
            limit="workers",
            labels=(("kind", "sync"), ("pool", "web")),
            across="mean",
            rate=True,
        ),
    )


@pytest.mark.parametrize(
    ("keys", "text_format", "kind"),
    [
        ('json = "http://[::1]:80/"\npointer = "/pool/active"', "json", "http"),
        ('text = "http://localhost/stub_status"\nafter = "Active connections:"', "words", "http"),
        ('text = "http://localhost/stats;csv"\ncolumn = "scur"', "column", "http"),
        ('file = "/run/app/queue"', "number", "file"),
        ('file = "/run/app/metrics.prom"\nmetric = "queue"', "prometheus", "file"),
        ('command = ["app", "queue length"]', "number", "command"),
        ('command = ["psql"]\ncolumn = "cl_waiting"', "column", "command"),
    ],
)
def test_the_keys_say_source_and_format(keys: str, text_format: str, kind: str) -> None:
    (indicator,) = parse(f'[[indicator]]\nname = "a"\nlimit = 5\n{keys}')
    assert (indicator.text_format, indicator.source.kind) == (text_format, kind)


def test_a_source_is_read_at_the_agents_interval_and_a_command_less_often() -> None:
    command = '[[indicator]]\nname = "a"\nlimit = 5\ncommand = ["app"]'
    assert parse(ONE, interval_s=0.5)[0].source.every_s == 0.5
    assert parse(command, interval_s=0.5)[0].source.every_s == 5.0
    assert parse(command, interval_s=20.0)[0].source.every_s == 20.0
    assert parse(f"{command}\nevery = 1", interval_s=20.0)[0].source.every_s == 1.0


def test_a_preset_is_the_defaults_of_an_entry() -> None:
    (given,) = parse('[[indicator]]\nname = "conns"\npreset = "haproxy"')
    assert given.source.target == "http://127.0.0.1:8404/metrics"
    assert (given.amount, given.limit) == (
        "haproxy_process_current_connections",
        "haproxy_process_max_connections",
    )
    (moved,) = parse('[[indicator]]\nname = "conns"\npreset = "haproxy"\nport = 9000\nlimit = 50')
    assert (moved.source.target, moved.limit) == ("http://127.0.0.1:9000/metrics", 50.0)
    (elsewhere,) = parse(
        '[[indicator]]\nname = "p"\npreset = "pgbouncer"\nlimit = 20\n'
        'command = ["psql", "--csv", "--command=SHOW POOLS", "host=/run/pgbouncer dbname=pgbouncer"]'
    )
    assert elsewhere.source.target[-1] == "host=/run/pgbouncer dbname=pgbouncer"
    assert elsewhere.amount == "sv_active"
    (other,) = parse('[[indicator]]\nname = "q"\npreset = "php-fpm"\nlimit = 5\nfile = "/run/x"\nafter = "="')
    assert (other.source.kind, other.text_format) == ("file", "words")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_declares_an_indicator(name: str) -> None:
    limit = "" if "limit" in PRESETS[name].keys else "limit = 8"
    (indicator,) = parse(f'[[indicator]]\nname = "a"\npreset = "{name}"\nport = 4321\n{limit}')
    assert "4321" in str(indicator.source)


def test_a_preset_whose_program_does_not_tell_its_limit_asks_for_it() -> None:
    with pytest.raises(ValueError, match=r"the preset php-fpm needs limit, a number: the pool's pm\.max"):
        parse('[[indicator]]\nname = "a"\npreset = "php-fpm"')


def test_the_page_has_every_preset_and_its_examples_are_right() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "agent.md").read_text()
    assert [name for name in PRESETS if f"`{name}`" not in page] == []
    examples = [text for text in re.findall(r"(?s)```toml\n(.*?)```", page) if "[[indicator]]" in text]
    assert [len(parse(text)) for text in examples] == [1, 3]
    rows = re.findall(r"(?m)^\| `(?:json|text|file|command) = .*\| (.*) \|$", page)
    for row in rows:
        parse('[[indicator]]\nname = "a"\n' + "\n".join(re.findall("`(.*?)`", row)))
    assert len(rows) == 4
    (example,) = re.findall(r"(?s)```toml\n(\[rps_fractional\].*?)```", page)
    assert len(declared.parse_rates(tomllib.loads(example), interval_s=1.0)) == 2


BARE = '[[indicator]]\nname = "a"\nlimit = 1\n'


def without(key: str) -> str:
    return re.sub(rf"(?m)^{key} = .*$", "", ONE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (without("name"), "[[indicator]] 1: give it a name of 1 to 32 lower-case letters"),
        (ONE.replace('"workers"', '"Workers"'), "[[indicator]] 1 (Workers): give it a name"),
        (ONE.replace('"workers"', '"cpu"'), "and none of cpu, net, io, mem"),
        (ONE + ONE, "[[indicator]] 2 (workers): another [[indicator]] has that name"),
        (ONE * 13, "there are 13 [[indicator]] tables: give at most 12"),
        (without("prometheus"), "(workers): give it a source: prometheus, json, text, file,"),
        (without("metric"), "(workers): prometheus needs metric"),
        (ONE + 'pointer = "/a"', "metric and pointer are both what to read: give one"),
        (ONE + 'file = "/a"', "prometheus and file are both a source: give one"),
        (ONE + "lables = {}", "(workers): 'lables' is no key of it; those are across, after, "),
        (without("limit"), "limit is the amount of 100 %: a number above 0, or the metric of one there"),
        (ONE.replace("8\n", "0\n"), "limit is the amount of 100 %: a number above 0"),
        (ONE.replace("= 8\n", "= nan\n"), "limit is the amount of 100 %"),
        (ONE.replace("= 8\n", "= true\n"), "limit is the amount of 100 %"),
        (ONE.replace("http://127", "127"), "prometheus is a URL, such as http://127.0.0.1:8000/metrics"),
        (ONE.replace("8000", "80000"), "prometheus is a URL"),
        (ONE.replace("/metrics", "/me trics"), "prometheus is a URL"),
        (ONE.replace("//127", "//me:secret@127"), "prometheus holds a password, which would be shown"),
        (ONE + "port = 80", "port is for a preset: write it into the URL"),
        (ONE + 'preset = "apache"', f"'apache' is no preset; those are {', '.join(PRESETS)}"),
        (ONE + 'preset = "haproxy"\nport = 0', "port is a number from 1 to 65535"),
        (ONE + 'labels = { pool = 3 }', "labels is a table of texts"),
        (ONE + 'across = "median"', "across is sum, max or mean"),
        (ONE + 'rate = "yes"', "rate is true for a counter"),
        (ONE + "every = 0.01", "every is seconds within 0.1..3600"),
        (ONE + "every = true", "every is seconds within 0.1..3600"),
        (f'{BARE}command = "ls -l"', "command is a list of words"),
        (f'{BARE}command = []', "command is a list of words"),
        (f'{BARE}command = ["a\\u0000b"]', "command is a list of words"),
        (f'{BARE}file = "queue"', "file is a path from the root on"),
        (f'{BARE}file = "/queue"'.replace("= 1", '= "max"'), "limit is the amount of 100 %: a number"),
        (f'{BARE}file = "/q"\nlabels = {{a = "b"}}', "labels are for metric and"),
        (
            '[[indicator]]\nname = "a"\nlimit = 1\njson = "http://a/"\npointer = "pool"',
            "'pool' is no JSON pointer: those begin with /",
        ),
        ('[indicator]\nname = "a"', "'indicator' is a list of tables: write [[indicator]] above each"),
        (ONE.replace('"workers"', '"a\\nb"'), "[[indicator]] 1 (a b): give it a name"),
        (ONE + 'labels = { "a\\nb" = "c" }', "labels is a table of texts"),
        ("indicator = [3]", "'indicator' is a list of tables"),
    ],
)  # fmt: skip
def test_a_mistake_names_the_entry_and_the_remedy(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        parse(text)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


RATES = """
[rps_fractional]
prometheus = "http://127.0.0.1:8000/metrics"
metric = "http_requests_total"

[eps]
json = "http://127.0.0.1:8000/stats"
pointer = "/errors_per_s"
rate = false
every = 5
"""


def test_a_rate_is_a_counters_growth_unless_it_is_said_and_has_no_limit() -> None:
    rps, eps = declared.parse_rates(tomllib.loads(RATES), interval_s=0.5)
    assert (rps.name, rps.amount, rps.limit, rps.rate, rps.source.every_s) == (
        "rps_fractional",
        "http_requests_total",
        None,
        True,
        0.5,
    )
    assert (eps.name, eps.text_format, eps.limit, eps.rate, eps.source.every_s) == (
        "eps",
        "json",
        None,
        False,
        5.0,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RATES + "limit = 100", "[eps]: 'limit' is no key of it; those are across, after, column, command, "),
        (RATES + 'preset = "haproxy"', "[eps]: 'preset' is no key of it"),
        (RATES + 'name = "eps"', "[eps]: 'name' is no key of it"),
        ('[eps]\nmetric = "errors_total"', "[eps]: give it a source: prometheus, json, text, file, command"),
        (
            "rps_fractional = 100",
            "[rps_fractional]: it is a table: write [rps_fractional], and its keys below",
        ),
    ],
)
def test_a_mistake_in_a_rate_names_its_table(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        declared.parse_rates(tomllib.loads(text), interval_s=1.0)
