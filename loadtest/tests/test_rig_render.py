"""The configurations of a comparison's balancers and controller."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from steelyard_controller import laws
from steelyard_loadtest.machine.programs import FAIR, LUA, STREAM_LUA, VNSWRR, Programs
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.render import BalancerConfig
from steelyard_loadtest.scenario.algorithms import (
    ALGORITHMS,
    BY_NAME,
    DEFAULT,
    PICKERS,
)
from steelyard_loadtest.scenario.definition import Load, Scenario, Server

BLOCK = "\nupstream web {\n    keepalive 2003;\n}\n"
SCENARIO = Scenario(
    name="unequal",
    title="",
    what="",
    source="",
    path="/",
    static=False,
    servers=tuple(
        Server(name=f"server-{number}", cpu_cores=0.1, weight=weight)
        for number, weight in enumerate((3, 2, 1), 1)
    ),
    load=Load(
        generator="wrk", levels=(1,), of_capacity=False, seconds=1, repeats=1, warm_up_s=0, cool_down_s=0
    ),
    events=(),
    algorithms=(),
    quick=True,
)
NAMES = tuple(SCENARIO.weights)
PROGRAMS = Programs(
    wrk=None, nginx="nginx", backend_nginx="nginx", memcached=None,
    modules=dict.fromkeys(((), LUA, STREAM_LUA, FAIR, VNSWRR), ("/modules/some.so",)), versions={},
)  # fmt: skip


def conf(name: str) -> BalancerConfig:
    algorithm = BY_NAME[name]
    return BalancerConfig(
        algorithm=algorithm,
        place=Place(
            folder=Path("/folder"),
            checkout=Path("/checkout"),
            programs=PROGRAMS,
            memcached_port=20002,
            balancer_port=20001,
            api_port=20003,
            follow_port=20004,
        ),
        addresses={name: f"127.0.0.1:2010{number}" for number, name in enumerate(NAMES, 1)},
        weights=render.weights(algorithm, SCENARIO),
        files=65536,
        root=True,
        socket=Path("/short/haproxy.sock"),
        upstream=BLOCK,
    )


def text(name: str, members: Sequence[str] = NAMES) -> str:
    return render.configuration(conf(name), members)


def lines(name: str, members: Sequence[str] = NAMES) -> list[str]:
    return [line.strip() for line in text(name, members).splitlines()]


def controller(name: str) -> dict[str, object]:
    upstreams = yaml.safe_load(render.controller(conf(name)))["upstreams"]
    assert list(upstreams) == ["web"]
    web: dict[str, object] = upstreams["web"]
    return web


@pytest.mark.parametrize("name", [each.name for each in ALGORITHMS if each.program != "direct"])
def test_nothing_is_left_to_fill_in(name: str) -> None:
    assert not {"%", "{{", "{#"} & set(re.findall(r"%|{{|{#", text(name)))


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("nginx-rr", [1, 1, 1]),
        ("nginx-wrr", [3, 2, 1]),
        ("nginx-wrr-reversed", [1, 2, 3]),
        ("nginx-wleast_conn", [3, 2, 1]),
    ],
)
def test_an_operator_s_weights_are_nothing_the_truth_or_the_truth_the_wrong_way_round(
    name: str, weights: list[int]
) -> None:
    assert [line for line in lines(name) if line.startswith("server 127.")] == [
        f"server 127.0.0.1:2010{number} weight={weight};" for number, weight in enumerate(weights, 1)
    ]


def test_backwards_has_the_same_servers_in_the_opposite_order() -> None:
    def order(name: str) -> list[str]:
        return [line for line in lines(name) if line.startswith("server 127.")]

    assert order("nginx-ip_hash-backwards") == order("nginx-ip_hash")[::-1]


def test_nginx_has_its_method_before_a_pool_for_all_clients_and_servers() -> None:
    config = lines("nginx-random2")
    assert config.index("random two least_conn;") < config.index("keepalive 2003;")
    assert "worker_processes 1;" in config
    assert "worker_connections 16384;" in config
    assert "load_module /modules/some.so;" in config
    assert "worker_connections 768;" in lines("nginx-rr-768")


def test_a_server_that_left_is_in_nginx_s_file_no_more() -> None:
    left = [line for line in lines("nginx-wrr", ["server-1", "server-3"]) if line.startswith("server 127.")]
    assert left == ["server 127.0.0.1:20101 weight=3;", "server 127.0.0.1:20103 weight=1;"]


def test_ours_has_the_generator_s_block_and_begins_with_every_server() -> None:
    config = text("steelyard-steelyard-vnswrr2")
    assert BLOCK in config
    assert 'bootstrap = { "127.0.0.1:20101", "127.0.0.1:20102", "127.0.0.1:20103" }' in config
    assert 'memcached = { "127.0.0.1:20002" }' in config
    assert 'controller = { "http://127.0.0.1:20003" }' in config


@pytest.mark.parametrize("law", laws.NAMES)
@pytest.mark.parametrize("picker", PICKERS)
def test_the_controller_has_the_law_the_picker_and_knows_nothing_of_capacities(law: str, picker: str) -> None:
    web = controller(f"steelyard-{law}-{picker}")
    assert (web["law"], web["picker"], web["load_balancers"]) == (law, picker, ["edge-1"])
    # The paper's law takes its initial weights from the agents' reports (eq 5).
    baseline = {} if law == "paper" else {"baseline": 1}
    assert web["peers"] == [
        {"id": f"server-{number}", "address": f"127.0.0.1:2010{number}"} | baseline for number in (1, 2, 3)
    ]


def test_what_counts_beside_the_four_is_declared_after_them_and_nothing_where_the_four_count() -> None:
    with_workers = controller("steelyard-steelyard-vnswrr2-workers")
    assert with_workers["indicators"] == {"cpu": {}, "net": {}, "io": {}, "mem": {}, "workers": {"knee": 0.5}}
    assert "indicators" not in controller(DEFAULT)
    assert controller(DEFAULT) == {name: with_workers[name] for name in with_workers if name != "indicators"}


def test_each_of_several_has_a_folder_and_a_name_of_its_own_and_all_send_reports() -> None:
    third = replace(conf("steelyard-8-shared"), number=3)
    assert third.folder == Path("/folder/balancer-3")
    config = render.configuration(third, NAMES)
    assert 'lb = "edge-3"' in config
    assert "share_in_flight = true" in config
    assert "share_in_flight = false" in text("steelyard-8")
    web = controller("steelyard-8")
    assert web == controller(DEFAULT) | {"load_balancers": [f"edge-{number}" for number in range(1, 9)]}


def test_haproxy_reports_nothing_so_the_controller_waits_for_nobody() -> None:
    web = controller("haproxy-leastconn-agent")
    assert (web["law"], web["load_balancers"]) == ("paper", [])


def test_beside_our_reporter_haproxy_has_the_default_law_and_weights_of_100() -> None:
    web = controller("haproxy-steelyard-tcp")
    assert (web["law"], web["load_balancers"], web["picker"]) == ("steelyard", ["edge-1"], "vnswrr2")
    assert "server server-2 127.0.0.1:20102 weight 100" in lines("haproxy-steelyard")
    assert "agent" not in text("haproxy-steelyard")
    assert "mode tcp" in lines("haproxy-steelyard-tcp")


def test_haproxy_shares_connections_in_http_alone() -> None:
    http, tcp = lines("haproxy-leastconn"), lines("haproxy-tcp")
    assert {"mode http", "balance leastconn", "http-reuse always"} <= set(http)
    assert {"mode tcp", "balance roundrobin"} <= set(tcp)
    assert "http-reuse always" not in tcp
    assert "server server-2 127.0.0.1:20102 weight 1" in http


def test_only_haproxy_with_an_agent_asks_our_controller_and_then_has_weights_of_100() -> None:
    config = text("haproxy-leastconn-agent")
    assert "agent-check agent-addr 127.0.0.1 agent-port 20004 agent-inter 1s" in config
    assert 'server server-3 127.0.0.1:20103 weight 100 agent-send "web/server-3\\n"' in config
    assert "agent" not in text("haproxy-leastconn")


def cluster(name: str) -> dict[str, object]:
    (envoy_cluster,) = yaml.safe_load(text(name))["static_resources"]["clusters"]
    assert isinstance(envoy_cluster, dict)
    return envoy_cluster


def test_envoy_has_its_policy_and_finds_its_servers_in_a_file() -> None:
    envoy_cluster = cluster("envoy-least_request")
    assert envoy_cluster["lb_policy"] == "LEAST_REQUEST"
    assert "/folder/balancer/endpoints.json" in json.dumps(envoy_cluster["eds_cluster_config"])
    known = json.loads(render.endpoints(conf("envoy-least_request"), ["server-3", "server-1"]))
    (locality,) = known["resources"][0]["endpoints"]
    assert [
        endpoint["endpoint"]["address"]["socket_address"]["port_value"]
        for endpoint in locality["lb_endpoints"]
    ] == [20101, 20103]


def test_envoy_s_weighted_round_robin_is_fed_by_the_largest_of_three_indicators() -> None:
    envoy_cluster = cluster("envoy-cswrr")
    assert "lb_policy" not in envoy_cluster
    policy = json.dumps(envoy_cluster["load_balancing_policy"])
    assert "v3.ClientSideWeightedRoundRobin" in policy
    assert '["cpu_utilization", "named_metrics.net", "named_metrics.io"]' in policy


def test_envoy_takes_servers_from_our_controller_and_reports_to_it_under_its_own_name() -> None:
    document = yaml.safe_load(render.configuration(replace(conf("envoy-steelyard-8"), number=3), NAMES))
    web, ours = document["static_resources"]["clusters"]
    assert web["lb_policy"] == "LEAST_REQUEST"
    assert web["eds_cluster_config"]["eds_config"]["api_config_source"]["api_type"] == "DELTA_GRPC"
    assert document["cluster_manager"]["load_stats_config"]["api_type"] == "GRPC"
    assert document["node"]["id"] == "edge-3"
    assert ours["name"] == "steelyard"
    assert '"port_value": 20004' in json.dumps(ours["load_assignment"])
    assert controller("envoy-steelyard-8")["load_balancers"] == [f"edge-{one}" for one in range(1, 9)]
    assert "load_stats_config" not in text("envoy-cswrr")


def test_zones_are_named_to_all_that_take_them() -> None:
    zones = dict(zip(NAMES, "aab", strict=True))
    ours = replace(conf(DEFAULT), zones=zones)
    assert 'zone = "a"' in render.configuration(ours, NAMES)
    peers = yaml.safe_load(render.controller(ours))["upstreams"]["web"]["peers"]
    assert [peer["zone"] for peer in peers] == ["a", "a", "b"]
    envoy = replace(conf("envoy-locality"), zones=zones)
    document = yaml.safe_load(render.configuration(envoy, NAMES))
    assert document["node"]["locality"] == {"zone": "a"}
    (assignment,) = json.loads(render.endpoints(envoy, NAMES))["resources"]
    assert [(one["locality"]["zone"], len(one["lb_endpoints"])) for one in assignment["endpoints"]] == [
        ("a", 2),
        ("b", 1),
    ]
    for name in (DEFAULT, "envoy-locality"):
        assert "zone =" not in text(name)
        assert "locality:" not in text(name)


def test_only_root_names_a_user() -> None:
    plain = render.configuration(replace(conf("nginx-rr"), root=False), NAMES)
    assert "user root;" not in plain
    assert "user root;" in text("nginx-rr")


def test_over_tcp_ours_is_a_stream_with_the_list_of_servers() -> None:
    config = lines("steelyard-tcp")
    assert "stream {" in config
    assert "http {" not in config
    assert 'balancer_by_lua_block { require("steelyard.stream").balance("web") }' in config
    assert 'memcached = { "127.0.0.1:20002" },' in config
    assert "proxy_pass web;" in config
