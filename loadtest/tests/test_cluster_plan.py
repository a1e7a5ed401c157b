"""The plan of a local cluster: its components, their files, and refused command lines."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import steelyard_loadtest.cluster
import yaml
from steelyard_loadtest.__main__ import main
from steelyard_loadtest.cluster.parts import Part, agent, redis, server
from steelyard_loadtest.cluster.plan import Cluster, Server, components, files

FOLDER = Path(steelyard_loadtest.cluster.__file__).with_name("templates")

PLAIN = Cluster(
    checkout=Path("/opt/steelyard"),
    run_dir=Path("/srv/run"),
    lb_port=8080,
    api_port=8081,
    memcached_port=8211,
    redis_port=8379,
    servers=tuple(Server(name=f"server-{n}", port=8100 + n, cpu_limit=0.15 * n) for n in (1, 2, 3)),
)
SPACED = replace(
    PLAIN,
    checkout=Path("/home/a b/steel yard"),
    run_dir=Path("/home/a b/my run"),
)


def test_every_component_has_a_name_of_its_own() -> None:
    assert [part.name for part in components(PLAIN)] == [
        "memcached",
        "redis",
        *("server-1", "agent-1", "server-2", "agent-2", "server-3", "agent-3"),
        "controller",
        "nginx",
    ]


def test_every_component_that_listens_has_a_port_of_its_own() -> None:
    ports = {part.name: part.port for part in components(PLAIN) if part.port is not None}
    assert ports == {
        "memcached": 8211,
        "redis": 8379,
        "server-1": 8101,
        "server-2": 8102,
        "server-3": 8103,
        "controller": 8081,
        "nginx": 8080,
    }


def test_what_others_need_starts_before_them() -> None:
    order: dict[str, set[int]] = {}
    for part in components(PLAIN):
        order.setdefault(part.name.split("-")[0], set()).add(part.order)
    assert all(len(steps) == 1 for steps in order.values())
    step = {kind: steps.pop() for kind, steps in order.items()}
    assert step["memcached"] == step["redis"]
    assert step["memcached"] < step["server"] < step["agent"] < step["controller"] < step["nginx"]


def test_each_agent_watches_the_server_of_its_number_by_the_pid_file_that_it_writes() -> None:
    parts = {part.name: part for part in components(PLAIN)}

    def value(part: Part, flag: str) -> str:
        return part.command[part.command.index(flag) + 1]

    for number in (1, 2, 3):
        server, agent = parts[f"server-{number}"], parts[f"agent-{number}"]
        assert value(agent, "--peer") == value(server, "--name") == f"server-{number}"
        for flag in ("--pid-file", "--cpu-limit"):
            assert value(agent, flag) == value(server, flag)


def test_nginx_finishes_the_requests_under_way_when_it_stops() -> None:
    assert {part.name for part in components(PLAIN) if part.stop_signal == "QUIT"} == {"nginx"}


@pytest.mark.parametrize(
    "cluster", [PLAIN, SPACED, replace(PLAIN, user="root")], ids=["plain", "spaced", "root"]
)
def test_no_placeholder_is_left_in_any_file(cluster: Cluster) -> None:
    texts = files(cluster)
    assert set(texts) == {"nginx.conf", "controller.yaml", "commands.txt"}
    assert [name for name, text in texts.items() if re.search(r"%\{|\$\{", text)] == []


def test_nginx_keeps_its_own_variables() -> None:
    assert "proxy_set_header Host $host;" in files(PLAIN)["nginx.conf"]


def test_nginx_listens_where_the_command_line_says_and_knows_the_servers() -> None:
    text = files(PLAIN)["nginx.conf"]
    assert "listen 127.0.0.1:8080;" in text
    assert 'bootstrap = { "127.0.0.1:8101", "127.0.0.1:8102", "127.0.0.1:8103" }' in text
    assert re.findall(r"^ +server (127.+);$", text, re.MULTILINE) == [f"127.0.0.1:810{n}" for n in (1, 2, 3)]


def test_the_controller_s_file_is_yaml_that_names_every_server() -> None:
    text = files(replace(PLAIN, law="equal"))["controller.yaml"]
    web = yaml.safe_load(text)["upstreams"]["web"]
    assert web["law"] == "equal"
    assert web["peers"] == [
        {"id": f"server-{n}", "address": f"127.0.0.1:810{n}", "baseline": 1} for n in (1, 2, 3)
    ]


def test_paths_with_spaces_are_quoted_in_nginx_conf() -> None:
    for line in files(SPACED)["nginx.conf"].splitlines():
        outside_quotes = "".join(line.split('"')[::2])
        assert "a b" not in outside_quotes, line


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAIN, lb_port=9999),
        replace(PLAIN, api_port=9999),
        replace(PLAIN, memcached_port=9999),
        replace(PLAIN, redis_port=9999),
    ],
)
def test_another_port_of_any_daemon_is_another_setting(other: Cluster) -> None:
    assert files(other) != files(PLAIN)


def test_a_flag_without_a_value_is_left_out_and_its_name_has_dashes() -> None:
    part = server("server-1", 8101, pid_file=Path("/run/pid"), cpu_limit=0.15, delay_ms=None)
    assert part.command[3:] == (
        *("--name", "server-1", "--port", "8101", "--pid-file", "/run/pid", "--cpu-limit", "0.15"),
    )


def test_an_agent_without_a_process_to_watch_watches_the_host() -> None:
    command = agent("server-1", memcached="127.0.0.1:11211").command
    assert command[command.index("--scope") + 1] == "host"
    assert "--pid-file" not in command


def test_a_redis_may_be_reachable_from_outside_and_may_keep_its_data() -> None:
    command = redis(6379, Path("/r"), listen="0.0.0.0", keep=True).command  # noqa: S104
    assert command[command.index("--protected-mode") + 1] == "no"
    assert command[command.index("--appendonly") + 1] == "yes"


def test_a_user_is_named_only_for_root() -> None:
    assert not re.search(r"^user ", files(PLAIN)["nginx.conf"], re.MULTILINE)
    assert re.search(r"^user ", files(replace(PLAIN, user="root"))["nginx.conf"], re.MULTILINE)


def test_memcached_gets_a_user_only_when_root_starts_it() -> None:
    assert "-u" not in components(PLAIN)[0].command
    assert components(replace(PLAIN, user="root"))[0].command[-2:] == ("-u", "nobody")


@pytest.mark.parametrize("port", ["0", "65536", "-1", "8080x", "", "²"])
@pytest.mark.parametrize(
    "flag", ["--lb-port", "--api-port", "--server-port", "--memcached-port", "--redis-port"]
)
def test_a_wrong_port_is_status_2_and_names_the_flag(
    flag: str, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cluster", "status", f"{flag}={port}"])
    assert ended.value.code == 2
    assert f"argument {flag}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["cluster"], ["cluster", "sideways"], [], ["cluster", "up", "--lb-port=x"]]
)
def test_a_wrong_command_line_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: steelyard-loadtest" in capsys.readouterr().err
