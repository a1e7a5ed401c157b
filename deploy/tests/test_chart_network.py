"""The chart's NetworkPolicies admit the same connections as the networks of docker-compose.yml."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from deploy.tests.rendered_chart import ROOT, SETS, Document, Rendered, matches, of_set, read_yaml, render

COMPOSE = read_yaml((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]

# The service of docker-compose.yml for each component.
SERVICE = {
    "controller": "controller-1",
    "dataplane": "nginx",
    "memcached": "memcached",
    "redis": "redis",
    "server": "server-1",
    "prometheus": "prometheus",
}

# Pods beside the chart's own: a server (sampled, or with a sidecar), Prometheus, and somebody else.
OTHERS = {
    "server": ("shop", {"app": "cart", "steelyard/upstream": "cart"}),
    "prometheus": ("monitoring", {"app": "prometheus"}),
    "stranger": ("shop", {"app": "blog"}),
}

REQUESTS = ("anybody", "dataplane", 8080)

DEFAULT = {
    REQUESTS,
    ("prometheus", "dataplane", 9145),
    ("dataplane", "controller", 8081),
    ("controller", "controller", 8081),
    ("prometheus", "controller", 8081),
    ("controller", "memcached", 11211),
    ("dataplane", "memcached", 11211),
    ("server", "memcached", 11211),
    ("controller", "redis", 6379),
}


def allowed(rendered: Rendered) -> set[tuple[str, str, int]]:
    """Return (from, to, port) of all admitted connections; `anybody` if no source is named."""
    allowed = set()
    for policy in rendered.of("NetworkPolicy"):
        for component in _covered(rendered, policy):
            for rule in policy["spec"]["ingress"]:
                ports = [port["port"] for port in rule["ports"]]
                allowed |= {(who, component, port) for who in _who(rendered, rule) for port in ports}
    return allowed


def _covered(rendered: Rendered, policy: Document) -> list[str]:
    selector = policy["spec"]["podSelector"]
    return [each for each, pod in rendered.pods.items() if matches(selector, pod["metadata"]["labels"])]


def _who(rendered: Rendered, rule: Document) -> Iterator[str]:
    if "from" not in rule:
        yield "anybody"
    ours = {each: ("lb", pod["metadata"]["labels"]) for each, pod in rendered.pods.items()}
    for peer in rule.get("from", []):
        for name, (namespace, labels) in {**ours, **OTHERS}.items():
            if _is_meant(peer, namespace, labels):
                yield name


def _is_meant(peer: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> bool:
    if "namespaceSelector" in peer:
        is_there = matches(peer["namespaceSelector"], {"kubernetes.io/metadata.name": namespace})
    else:
        is_there = namespace == "lb"  # the policy's own
    return is_there and matches(peer.get("podSelector", {}), labels)


def test_they_let_through_what_is_needed_and_no_more() -> None:
    assert allowed(of_set("default")) == DEFAULT


def test_each_way_is_one_that_the_compose_file_has() -> None:
    for who, to, _ in DEFAULT - {REQUESTS}:
        assert set(COMPOSE[SERVICE[who]]["networks"]) & set(COMPOSE[SERVICE[to]]["networks"]), (who, to)
    assert "ports" in COMPOSE["nginx"]


@pytest.mark.parametrize("name", sorted(SETS))
def test_every_pod_has_a_policy(name: str) -> None:
    rendered = of_set(name)
    covered = [each for policy in rendered.of("NetworkPolicy") for each in _covered(rendered, policy)]
    assert sorted(covered) == sorted(rendered.pods)


def test_stores_ask_nobody() -> None:
    for policy in of_set("default").of("NetworkPolicy"):
        component = policy["metadata"]["labels"]["app.kubernetes.io/component"]
        assert ("Egress" in policy["spec"]["policyTypes"]) == (component in {"memcached", "redis"})
        assert "egress" not in policy["spec"]


def test_the_nodes_agents_reach_memcached_and_prometheus_reaches_them() -> None:
    ways = allowed(of_set("daemonset"))
    agents = {("agent", "memcached", 11211), ("prometheus", "agent", 9811)}
    assert {way for way in ways if "agent" in way} == agents
    assert ("server", "memcached", 11211) in ways  # its namespace, shop, is one of those that are named


def test_servers_of_other_namespaces_than_the_named_ones_do_not_reach_memcached() -> None:
    rendered = render({"networkPolicy": {"agentNamespaces": ["payments"]}})
    assert allowed(rendered) == DEFAULT - {("server", "memcached", 11211)}


def test_who_may_send_requests_and_who_may_ask_the_api_can_be_said() -> None:
    peer = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}]
    rendered = render({"networkPolicy": {"requests": peer, "api": peer}})
    ways = (("dataplane", 8080), ("controller", 8081))
    more = {(who, *way) for who in ("server", "stranger") for way in ways}
    assert allowed(rendered) == (DEFAULT - {REQUESTS}) | more


def test_envoys_reach_the_controllers_where_there_is_a_certificate() -> None:
    peer = {"xds": [{"podSelector": {"matchLabels": {"app": "cart"}}, "namespaceSelector": {}}]}
    assert allowed(render({"networkPolicy": peer})) == DEFAULT
    secret = {"xds": {"secret": "controllers-xds"}}
    assert allowed(render(secret)) == DEFAULT | {("anybody", "controller", 8084)}
    rendered = render({"networkPolicy": peer, **secret})
    assert allowed(rendered) == DEFAULT | {("server", "controller", 8084)}
    service = rendered.named("Service", "steelyard-controller")
    assert {"name": "xds", "port": 8084, "targetPort": "xds"} in service["spec"]["ports"]
