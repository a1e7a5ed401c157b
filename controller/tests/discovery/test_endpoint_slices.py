"""Pods from EndpointSlices, and upstreams from Services, in all their forms."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from steelyard_controller.discovery.claims import claims_of
from steelyard_controller.discovery.endpoint_slices import pods_of
from steelyard_controller.discovery.objects import (
    EndpointSlice,
    Service,
    UnreadableError,
    read,
)
from steelyard_protocol import peer_address, wire

HTTP = [{"name": "http", "port": 8080, "protocol": "TCP"}]


def endpoint(pod: str | None, address: str, *, uid: str | None = None, **conditions: Any) -> Any:
    """Return an endpoint in the API server's form."""
    target = {} if pod is None else {"targetRef": {"kind": "Pod", "name": pod, "uid": uid or f"uid-{pod}"}}
    return {"addresses": [address], "conditions": conditions, **target}


def sliced(
    *endpoints: Any, name: str = "web-1", ports: Any = HTTP, family: str = "IPv4", **more: Any
) -> EndpointSlice:
    """Return an EndpointSlice of the Service shop/web."""
    document = {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "resourceVersion": "7",
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": family,
        "endpoints": list(endpoints),
        "ports": ports,
        **more,
    }
    return read(json.dumps(document).encode(), EndpointSlice)


def pods_in(*slices: EndpointSlice, port: str = "http") -> list[tuple[str, str, str]]:
    """Return the pods as tuples; there must be no fault."""
    said = pods_of(slices, port)
    assert said.fault is None
    assert said.pods is not None
    return [(pod.id, pod.address, pod.condition) for pod in said.pods]


@pytest.mark.parametrize(
    ("conditions", "condition"),
    [
        ({}, "ready"),  # By the API reference, nil means true.
        ({"ready": None}, "ready"),
        ({"ready": True, "serving": True, "terminating": False}, "ready"),
        ({"ready": False, "serving": False, "terminating": False}, "unready"),
        ({"ready": False, "serving": True, "terminating": True}, "terminating"),
        # publishNotReadyAddresses: always ready.
        ({"ready": True, "serving": True, "terminating": True}, "terminating"),
        ({"ready": False, "terminating": None}, "unready"),
    ],
)
def test_conditions_say_what_a_pod_can_do(conditions: dict[str, Any], condition: str) -> None:
    assert pods_in(sliced(endpoint("a", "10.0.0.1", **conditions))) == [("a", "10.0.0.1:8080", condition)]


@pytest.mark.parametrize(
    "conditions",
    [
        {"ready": False, "serving": False, "terminating": True},
        {"ready": True, "serving": False, "terminating": True},
        {"ready": False, "terminating": True},  # Without `serving`, `ready` counts.
    ],
)
def test_a_pod_that_terminates_and_serves_no_more_is_gone(conditions: dict[str, Any]) -> None:
    rest = endpoint("b", "10.0.0.2")
    assert pods_in(sliced(endpoint("a", "10.0.0.1", **conditions), rest)) == [("b", "10.0.0.2:8080", "ready")]


def test_a_service_without_pods_has_none() -> None:
    assert pods_in(sliced(ports=[])) == []
    assert pods_in(sliced(ports=None, endpoints=None)) == []  # Go's form of an empty list.


def test_without_any_slice_nothing_is_known() -> None:
    said = pods_of([], "http")
    assert said.pods is None
    assert said.fault is not None
    assert "no EndpointSlice" in said.fault


def test_the_port_of_each_slice_is_its_own() -> None:
    assert pods_in(
        sliced(endpoint("a", "10.0.0.1"), name="web-1"),
        sliced(endpoint("b", "10.0.0.2"), name="web-2", ports=[{"name": "http", "port": 9090}]),
    ) == [("a", "10.0.0.1:8080", "ready"), ("b", "10.0.0.2:9090", "ready")]


@pytest.mark.parametrize("ports", [[{"name": "", "port": 80}], [{"name": None, "port": 80}], [{"port": 80}]])
def test_a_port_without_a_name_is_the_only_one(ports: Any) -> None:
    assert pods_in(sliced(endpoint("a", "10.0.0.1"), ports=ports), port="") == [("a", "10.0.0.1:80", "ready")]


@pytest.mark.parametrize(
    "ports",
    [
        [],
        [{"name": "metrics", "port": 9100}],
        [{"name": "http", "port": 53, "protocol": "UDP"}],
        [{"name": "http", "port": None}],
    ],
)
def test_pods_without_the_port_are_left_out_and_named(ports: Any) -> None:
    said = pods_of(
        [
            sliced(endpoint("old-1", "10.0.0.1"), ports=ports),
            sliced(endpoint("a", "10.0.0.2"), name="web-2"),
        ],
        "http",
    )
    assert [pod.id for pod in said.pods or ()] == ["a"]
    assert said.fault is not None
    assert "old-1: no TCP port http" in said.fault


def test_where_no_pod_has_the_port_nothing_is_known_so_a_mistake_empties_nothing() -> None:
    said = pods_of([sliced(endpoint("a", "10.0.0.1"), endpoint("b", "10.0.0.2"))], "htpp")
    assert said.pods is None
    assert said.fault is not None
    assert "a, b: no TCP port htpp" in said.fault


def test_an_endpoint_in_two_slices_is_one_server() -> None:
    assert pods_in(
        sliced(endpoint("a", "10.0.0.1", ready=True), name="web-1"),
        sliced(endpoint("a", "10.0.0.1", ready=False), name="web-2"),
    ) == [("a", "10.0.0.1:8080", "ready")]


def test_a_termination_that_one_slice_has_is_believed() -> None:
    ready = sliced(endpoint("a", "10.0.0.1", ready=True, serving=True), name="web-1")
    ending = sliced(endpoint("a", "10.0.0.1", ready=False, serving=True, terminating=True), name="web-2")
    over = sliced(endpoint("a", "10.0.0.1", ready=False, serving=False, terminating=True), name="web-3")
    assert pods_in(ready, ending) == [("a", "10.0.0.1:8080", "terminating")]
    assert pods_in(ready, ending, over) == []


def test_of_a_pod_with_two_families_ipv4_is_taken_and_its_end_is_known_from_either() -> None:
    v4 = sliced(endpoint("a", "10.0.0.1"), name="web-1")
    v6 = sliced(endpoint("a", "fd00::1"), endpoint("b", "fd00::2"), name="web-2", family="IPv6")
    assert pods_in(v4, v6) == [("a", "10.0.0.1:8080", "ready"), ("b", "[fd00::2]:8080", "ready")]
    over = sliced(
        endpoint("a", "fd00::1", ready=False, serving=False, terminating=True), name="web-2", family="IPv6"
    )
    assert pods_in(v4, over) == []


def test_what_is_no_pod_has_its_address_for_a_name_and_one_family() -> None:
    v4 = sliced(endpoint(None, "10.0.0.1"), name="web-1")
    v6 = sliced(endpoint(None, "fd00::1"), name="web-2", family="IPv6")
    node = sliced({"addresses": ["10.0.0.9"], "targetRef": {"kind": "Node", "name": "n"}}, name="web-3")
    assert pods_in(v4, v6, node) == [
        ("10.0.0.1", "10.0.0.1:8080", "ready"),
        ("10.0.0.9", "10.0.0.9:8080", "ready"),
    ]
    assert pods_in(v6) == [("fd00-0000-0000-0000-0000-0000-0000-0001", "[fd00::1]:8080", "ready")]


def test_of_a_pod_and_its_successor_of_the_same_name_the_one_that_serves_is_taken() -> None:
    assert pods_in(
        sliced(endpoint("db-0", "10.0.0.9", uid="1", ready=False, serving=True, terminating=True)),
        sliced(endpoint("db-0", "10.0.0.1", uid="2"), name="web-2"),
    ) == [("db-0", "10.0.0.1:8080", "ready")]


@pytest.mark.parametrize(
    ("address", "family"),
    [
        ("::", "IPv6"),
        ("224.0.0.1", "IPv4"),
        ("fe80::1%eth0", "IPv6"),
        ("shop.example", "FQDN"),
        ("", "IPv4"),
    ],
)
def test_an_address_that_nginx_cannot_use_is_left_out_and_named(address: str, family: str) -> None:
    said = pods_of(
        [
            sliced(endpoint("a", "10.0.0.1")),
            sliced(endpoint("odd", address), name="web-2", family=family),
        ],
        "http",
    )
    assert [pod.id for pod in said.pods or ()] == ["a"]
    assert said.fault is not None
    assert "odd: no address" in said.fault


def test_a_name_that_is_too_long_is_cut_so_that_two_stay_two_and_it_is_said() -> None:
    names = [f"{'w' * 80}-{n}" for n in range(2)]
    said = pods_of([sliced(*(endpoint(name, f"10.0.0.{n}") for n, name in enumerate(names, 1)))], "http")
    assert said.pods is not None
    assert len({pod.id for pod in said.pods}) == 2
    assert all(wire.NAME.fullmatch(pod.id) for pod in said.pods)
    assert said.fault is not None
    assert "more than 64 characters" in said.fault


ENDPOINTS = st.builds(
    lambda pod, host, family, uid, conditions: (
        family,
        endpoint(pod, f"10.0.0.{host}" if family == "IPv4" else f"fd00::{host}", uid=uid, **conditions),
    ),
    st.sampled_from(["a", "b", "c", "d-" + "x" * 70, None]),
    st.integers(1, 4),
    st.sampled_from(["IPv4", "IPv6"]),
    st.sampled_from(["1", "2"]),
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("ready", "serving", "terminating"), st.sampled_from([None, True, False]))
    ),
)


@st.composite
def services(draw: st.DrawFn) -> list[EndpointSlice]:
    """Return slices of one Service; each endpoint is in one of them, or in several."""
    made: dict[tuple[str, int], list[Any]] = {}
    for family, each in draw(st.lists(ENDPOINTS, max_size=12)):
        for number in draw(st.sets(st.integers(0, 2), min_size=1)):
            made.setdefault((family, number), []).append(each)
    return [
        sliced(*endpoints, name=f"web-{family}-{number}", family=family)
        for (family, number), endpoints in made.items()
    ]


@given(services(), st.randoms(use_true_random=False))
def test_the_order_of_slices_does_not_matter(slices: list[EndpointSlice], order: Any) -> None:
    shuffled = []
    for each in slices:
        endpoints = list(each.endpoints or ())
        order.shuffle(endpoints)
        shuffled.append(EndpointSlice(
            metadata=each.metadata, address_type=each.address_type, endpoints=endpoints, ports=each.ports
        ))  # fmt: skip
    order.shuffle(shuffled)
    assert pods_of(shuffled, "http") == pods_of(slices, "http")


def _is_over(conditions: Any) -> bool:
    serving = conditions.ready if conditions.serving is None else conditions.serving
    return bool(conditions.terminating) and serving is False


@given(services())
def test_no_pod_is_lost_and_none_is_there_twice(slices: list[EndpointSlice]) -> None:
    said = pods_of(slices, "http")
    if not slices:
        return
    assert said.pods is not None
    ids = [pod.id for pod in said.pods]
    assert len(ids) == len(set(ids))
    listed: dict[str, list[Any]] = {}
    for each in slices:
        for one in each.endpoints or ():
            if one.target_ref is not None:
                listed.setdefault(one.target_ref.name or "", []).append(one.conditions)
    # Endpoints that no slice reports as over are there, under their name or the short form of a long one.
    alive = {name for name, each in listed.items() if not any(map(_is_over, each))}
    cut = {each for each in ids if each.startswith("d-")}
    assert {name for name in alive if wire.NAME.fullmatch(name)} <= set(ids)
    assert cut or not any(name.startswith("d-") for name in alive)
    assert all(not peer_address.parse(pod.address).is_name for pod in said.pods)


def service(name: str, *, upstream: str | None = "web", ports: Any = None, **metadata: Any) -> Service:
    """Return a Service of the namespace shop."""
    annotations = {} if upstream is None else {"steelyard/upstream": upstream}
    document = {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
            "annotations": {**annotations, **metadata.get("annotations", {})},
        },
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}] if ports is None else ports},
    }
    return read(json.dumps(document).encode(), Service)


def owners(services: Iterable[Service], holders: dict[str, str] | None = None) -> dict[str, str]:
    return {
        upstream: str(claim) for upstream, claim in claims_of(services, holders or {}).by_upstream.items()
    }


def test_a_service_takes_part_by_its_annotation() -> None:
    said = claims_of([service("web"), service("other", upstream=None)], {})
    assert {name: (str(claim), claim.port) for name, claim in said.by_upstream.items()} == {
        "web": ("shop/web", "http")
    }
    assert said.faults == {}


def test_of_services_that_claim_one_upstream_the_oldest_has_it() -> None:
    young = service("aaa", creationTimestamp="2026-03-01T00:00:00Z")
    old = service("zzz", creationTimestamp="2026-02-01T00:00:00Z")
    for order in ([young, old], [old, young]):
        assert owners(order) == {"web": "shop/zzz"}
        assert "belongs to shop/zzz, the first to claim it" in claims_of(order, {}).faults["shop", "aaa"]


def test_who_has_an_upstream_keeps_it_from_an_older_service_until_it_lets_go() -> None:
    young = service("aaa", creationTimestamp="2026-03-01T00:00:00Z")
    old = service("zzz", creationTimestamp="2026-02-01T00:00:00Z")
    for order in ([young, old], [old, young]):
        assert owners(order, {"web": "shop/aaa"}) == {"web": "shop/aaa"}
    assert owners([old], {"web": "shop/aaa"}) == {"web": "shop/zzz"}


def test_a_namespace_may_claim_what_it_is_given_and_nothing_else() -> None:
    services = [
        service("web"),
        service("pay", namespace="payments", upstream="pay-eu"),
        service("thief", namespace="payments", upstream="web", creationTimestamp="2020-01-01T00:00:00Z"),
        service("guest", namespace="guests", upstream="guests"),
    ]
    said = claims_of(services, {}, {"shop": ["web"], "payments": ["pay-*"]})
    assert {name: str(claim) for name, claim in said.by_upstream.items()} == {
        "web": "shop/web", "pay-eu": "payments/pay"
    }  # fmt: skip
    assert set(said.faults) == {("payments", "thief"), ("guests", "guest")}
    assert "may not claim the upstream web: add it to kubernetes_claims" in said.faults["payments", "thief"]
    # The former holder has lost it by the refusal: its servers stay as they are.
    assert claims_of(services[2:3], {"web": "payments/thief"}, {"payments": []}).by_upstream == {}


@pytest.mark.parametrize("upstream", ["", "a b", "-web", "w" * 65, "wéb"])
def test_a_name_that_no_upstream_can_have_is_said(upstream: str) -> None:
    said = claims_of([service("web", upstream=upstream)], {})
    assert said.by_upstream == {}
    assert "not an upstream's name" in said.faults["shop", "web"]


TWO = [{"name": "http", "port": 80}, {"name": "admin", "port": 9000}]


@pytest.mark.parametrize(("wanted", "port"), [("http", "http"), ("admin", "admin"), ("9000", "admin")])
def test_of_several_ports_the_annotation_says_which(wanted: str, port: str) -> None:
    said = claims_of([service("web", ports=TWO, annotations={"steelyard/port": wanted})], {})
    assert said.by_upstream["web"].port == port


@pytest.mark.parametrize(
    ("ports", "annotations", "fault"),
    [
        (TWO, {}, "several ports (http 80, admin 9000): name one with steelyard/port"),
        (TWO, {"steelyard/port": "8080"}, "'8080' is none of its ports (http 80, admin 9000)"),
        ([], {}, "no TCP port"),
        ([{"name": "dns", "port": 53, "protocol": "UDP"}], {}, "no TCP port"),
    ],
)
def test_a_port_that_cannot_be_told_is_said_and_the_upstream_stays_its_own(
    ports: Any, annotations: dict[str, str], fault: str
) -> None:
    younger = service("younger", creationTimestamp="2026-02-01T00:00:00Z")
    said = claims_of([service("web", ports=ports, annotations=annotations), younger], {})
    assert (str(said.by_upstream["web"]), said.by_upstream["web"].port) == ("shop/web", None)
    assert fault in said.faults["shop", "web"]


@pytest.mark.parametrize("value", [b"", b"[]", b'{"metadata":{}}', b'{"metadata":{"name":1}}', b"\xff", b"{"])
def test_what_is_no_object_of_kubernetes_is_refused(value: bytes) -> None:
    for kind in (Service, EndpointSlice):
        with pytest.raises(UnreadableError, match="it did not send a"):
            read(Raw(value), kind)


@pytest.mark.parametrize(("zone", "told"), [("eu-1a", "eu-1a"), (None, None), ("", None), ("eu 1a", None)])
def test_a_pod_has_the_zone_of_its_endpoint_where_it_is_a_name(zone: str | None, told: str | None) -> None:
    both = [
        sliced({**endpoint("web-a", address), "zone": zone}, name=family, family=family)
        for family, address in (("IPv4", "10.0.0.1"), ("IPv6", "fd00::1"))
    ]
    (pod,) = pods_of(both, "http").pods or ()
    assert pod.zone == told
