"""The responses to an Envoy on a stream: versions, nonces, acceptance and refusal."""

from collections.abc import Callable
from typing import Any

import pytest
from steelyard_controller.xds import assignments
from steelyard_controller.xds.assignments import Assignment
from steelyard_controller.xds.subscriptions import (
    MOST_NAMES,
    BadRequest,
    Delta,
    StateOfTheWorld,
    Subscription,
)
from steelyard_controller.xds.xds_messages import (
    EDS_TYPE,
    UNHEALTHY,
    ClusterLoadAssignment,
    DeltaDiscoveryRequest,
    DeltaDiscoveryResponse,
    DiscoveryRequest,
    DiscoveryResponse,
)
from steelyard_protocol.weight_table import State

from .tables import peer, table


def _made(name: str = "web", weight: int = 20) -> Assignment:
    return assignments.assignment(table(peer("a", weight=weight), upstream=name))


def _request(
    names: list[str], nonce: str = "", refused: str | None = None, type_url: str = EDS_TYPE
) -> bytes:
    request = DiscoveryRequest(resource_names=names, type_url=type_url, response_nonce=nonce)
    if refused is not None:
        request.error_detail.message = refused
    return bytes(request.SerializeToString())


def _delta(nonce: str = "", refused: str | None = None, **fields: Any) -> bytes:
    versions = fields.pop("versions", {})
    request = DeltaDiscoveryRequest(type_url=EDS_TYPE, response_nonce=nonce, **fields)
    for name, version in versions.items():
        request.initial_resource_versions.add(key=name, value=version)
    if refused is not None:
        request.error_detail.message = refused
    return bytes(request.SerializeToString())


def _answer(of: Subscription, has: dict[str, Assignment], absent: set[str] = frozenset()) -> Any:  # type: ignore[assignment]
    value = of.answer(has, absent)
    kind = DiscoveryResponse if isinstance(of, StateOfTheWorld) else DeltaDiscoveryResponse
    return None if value is None else kind.FromString(value)


def _clusters(response: Any) -> list[str]:
    return [ClusterLoadAssignment.FromString(each.value).cluster_name for each in response.resources]


def test_the_first_response_has_what_is_declared_of_what_is_asked_for() -> None:
    one = StateOfTheWorld()
    one.take(_request(["web", "shop", "unknown"]))
    response = _answer(one, {"web": _made(), "shop": _made("shop"), "other": _made("other")})
    assert _clusters(response) == ["shop", "web"]
    assert (response.type_url, response.nonce) == (EDS_TYPE, "1")
    assert response.version_info


def test_after_an_ack_only_what_has_changed_is_sent() -> None:
    one, has = StateOfTheWorld(), {"web": _made(), "shop": _made("shop")}
    one.take(_request(["web", "shop"]))
    first = _answer(one, has)
    assert _answer(one, has) is None
    one.take(_request(["web", "shop"], nonce="1"))
    assert _answer(one, has) is None
    second = _answer(one, {**has, "web": _made(weight=30)})
    assert _clusters(second) == ["web"]
    assert second.nonce == "2"
    assert second.version_info != first.version_info


def test_the_next_response_waits_for_the_answer_to_the_last_and_has_the_newest() -> None:
    one = StateOfTheWorld()
    one.take(_request(["web"]))
    assert _answer(one, {"web": _made(weight=1)}) is not None
    assert _answer(one, {"web": _made(weight=2)}) is None
    one.take(
        _request(["web", "shop"], nonce="")
    )  # It was sent before the response was there, so it is stale.
    assert _answer(one, {"web": _made(weight=2)}) is None
    one.take(_request(["web"], nonce="1"))
    response = _answer(one, {"web": _made(weight=3)})
    (resource,) = response.resources
    assert (
        ClusterLoadAssignment.FromString(resource.value)
        .endpoints[0]
        .lb_endpoints[0]
        .load_balancing_weight.value
        == 3
    )


def test_what_was_refused_is_told_and_not_sent_again_before_it_is_another() -> None:
    one = StateOfTheWorld()
    one.take(_request(["web"]))
    _answer(one, {"web": _made()})
    one.take(_request(["web"], nonce="1", refused="no\n  such   thing" + "x" * 1000))
    assert one.refused is not None
    assert one.refused.startswith("no such thing")
    assert len(one.refused) == 300
    assert _answer(one, {"web": _made()}) is None
    assert _answer(one, {"web": _made(weight=30)}) is not None
    one.take(_request(["web"], nonce="2"))
    assert one.refused is None


def _states(response: Any) -> list[tuple[str, int]]:
    """Return the address and the health of each endpoint of `web`."""
    (resource,) = response.resources
    value = resource.resource.value if isinstance(response, DeltaDiscoveryResponse) else resource.value
    return [
        (each.endpoint.address.socket_address.address, each.health_status)
        for locality in ClusterLoadAssignment.FromString(value).endpoints
        for each in locality.lb_endpoints
    ]


def _pair(second: State, weight: int = 20) -> dict[str, Assignment]:
    rows = table(peer("a", "10.0.0.1:80", weight), peer("b", "10.0.0.2:80", state=second))
    return {"web": assignments.assignment(rows)}


Take = Callable[..., bytes]


@pytest.mark.parametrize(
    ("kind", "first", "ack"),
    [
        (StateOfTheWorld, _request(["web"]), lambda nonce, **more: _request(["web"], nonce, **more)),
        (Delta, _delta(resource_names_subscribe=["web"]), _delta),
    ],
)
def test_a_server_leaves_as_unhealthy_first_and_with_the_answer_to_that_for_good(
    kind: type[Subscription], first: bytes, ack: Take
) -> None:
    one = kind()
    one.take(first)
    assert _states(_answer(one, _pair("up"))) == [("10.0.0.1", 0), ("10.0.0.2", 0)]
    one.take(ack("1"))
    assert _states(_answer(one, _pair("drain"))) == [("10.0.0.1", 0), ("10.0.0.2", UNHEALTHY)]
    assert _answer(one, _pair("drain")) is None, "Envoy has not answered yet"
    one.take(ack("2"))
    assert _states(_answer(one, _pair("drain"))) == [("10.0.0.1", 0)]
    one.take(ack("3"))
    assert _answer(one, _pair("drain")) is None
    # A change of weights, or from drain to down, brings it back for no moment.
    assert _states(_answer(one, _pair("down", weight=30))) == [("10.0.0.1", 0)]
    one.take(ack("4"))
    assert _states(_answer(one, _pair("up"))) == [("10.0.0.1", 0), ("10.0.0.2", 0)]
    one.take(ack("5"))
    assert _states(_answer(one, _pair("down"))) == [("10.0.0.1", 0), ("10.0.0.2", UNHEALTHY)]
    # A refused farewell is not sent again.
    one.take(ack("6", refused="no"))
    assert _states(_answer(one, _pair("down"))) == [("10.0.0.1", 0)]


def test_servers_that_have_left_stay_away_while_another_one_leaves() -> None:
    def has(**states: State) -> dict[str, Assignment]:
        rows = [
            peer(name, f"10.0.0.{n}:80", state=state) for n, (name, state) in enumerate(states.items(), 1)
        ]
        return {"web": assignments.assignment(table(*rows))}

    one = StateOfTheWorld()
    one.take(_request(["web"]))
    _answer(one, has(a="up", b="drain", c="up"))
    one.take(_request(["web"], nonce="1"))
    assert _states(_answer(one, has(a="up", b="drain", c="up"))) == [("10.0.0.1", 0), ("10.0.0.3", 0)]
    one.take(_request(["web"], nonce="2"))
    assert _states(_answer(one, has(a="up", b="drain", c="down"))) == [
        ("10.0.0.1", 0),
        ("10.0.0.3", UNHEALTHY),
    ]
    one.take(_request(["web"], nonce="3"))
    assert _states(_answer(one, has(a="up", b="drain", c="down"))) == [("10.0.0.1", 0)]


def test_a_server_that_is_back_before_its_farewell_is_answered_does_not_leave() -> None:
    one = StateOfTheWorld()
    one.take(_request(["web"]))
    _answer(one, _pair("down"))
    one.take(_request(["web"], nonce="1"))
    assert _states(_answer(one, _pair("up"))) == [("10.0.0.1", 0), ("10.0.0.2", 0)]
    one.take(_request(["web"], nonce="2"))
    assert _states(_answer(one, _pair("down")))[1] == ("10.0.0.2", UNHEALTHY)


@pytest.mark.parametrize("has_farewell", [False, True])
def test_after_a_break_of_the_stream_only_what_envoy_lacks_is_sent(has_farewell: bool) -> None:
    one, has = Delta(), _pair("drain")
    known = has["web"].farewell(has["web"].out) if has_farewell else has["web"]
    one.take(_delta(resource_names_subscribe=["web"], versions={"web": known.version}))
    answer = _answer(one, has)
    assert (answer and _states(answer)) == ([("10.0.0.1", 0)] if has_farewell else None)
    one.take(_delta(nonce="1"))
    assert _states(_answer(one, _pair("drain", weight=30))) == [("10.0.0.1", 0)]
    # Any other version may have the server.
    other = Delta()
    other.take(_delta(resource_names_subscribe=["web"], versions={"web": "else"}))
    assert _states(_answer(other, has)) == [("10.0.0.1", 0), ("10.0.0.2", UNHEALTHY)]


def test_an_upstream_that_is_declared_later_is_sent_then() -> None:
    one = StateOfTheWorld()
    one.take(_request(["web"]))
    assert _answer(one, {}, {"web"}) is None
    assert _clusters(_answer(one, {"web": _made()})) == ["web"]


def test_what_is_asked_for_again_after_it_was_left_is_sent_again() -> None:
    one, has = StateOfTheWorld(), {"web": _made(), "shop": _made("shop")}
    one.take(_request(["web", "shop"]))
    _answer(one, has)
    one.take(_request(["shop"], nonce="1"))
    one.take(_request(["web", "shop"], nonce="1"))
    assert _clusters(_answer(one, has)) == ["web"]


def test_other_types_are_passed_over() -> None:
    one = StateOfTheWorld()
    one.take(_request(["web"], type_url="type.googleapis.com/envoy.config.cluster.v3.Cluster"))
    assert one.names == set()
    assert _answer(one, {"web": _made()}) is None


def test_delta_sends_what_is_new_and_what_has_changed() -> None:
    one, has = Delta(), {"web": _made(), "shop": _made("shop")}
    one.take(_delta(resource_names_subscribe=["web"]))
    assert [each.name for each in _answer(one, has).resources] == ["web"]
    one.take(_delta(nonce="1"))
    one.take(_delta(resource_names_subscribe=["shop"]))
    assert [each.name for each in _answer(one, has).resources] == ["shop"]
    one.take(_delta(nonce="2"))
    changed = _answer(one, {**has, "web": _made(weight=30)})
    assert [(each.name, each.version) for each in changed.resources] == [("web", _made(weight=30).version)]


def test_delta_says_at_once_that_a_name_is_not_declared_and_sends_it_once_it_is() -> None:
    one = Delta()
    one.take(_delta(resource_names_subscribe=["web", "later"]))
    response = _answer(one, {"web": _made()}, {"later"})
    assert response.removed_resources == ["later"]
    one.take(_delta(nonce="1"))
    assert _answer(one, {"web": _made()}, {"later"}) is None
    assert [each.name for each in _answer(one, {"web": _made(), "later": _made("later")}).resources] == [
        "later"
    ]


def test_what_is_declared_no_more_stays_as_envoy_has_it() -> None:
    for one, first in (
        (StateOfTheWorld(), _request(["web"])),
        (Delta(), _delta(resource_names_subscribe=["web"])),
    ):
        one.take(first)
        _answer(one, {"web": _made()})
        one.take(_request(["web"], nonce="1") if isinstance(one, StateOfTheWorld) else _delta(nonce="1"))
        assert _answer(one, {}, {"web"}) is None


def test_after_a_break_delta_sends_nothing_that_envoy_has_from_another_controller() -> None:
    one = Delta()
    versions = {"web": _made().version, "shop": "another"}
    one.take(_delta(resource_names_subscribe=["web", "shop"], versions=versions))
    response = _answer(one, {"web": _made(), "shop": _made("shop")})
    assert [each.name for each in response.resources] == ["shop"]


def test_delta_forgets_what_is_no_longer_asked_for_and_sends_it_again_when_it_is() -> None:
    one, has = Delta(), {"web": _made()}
    one.take(_delta(resource_names_subscribe=["web"]))
    _answer(one, has)
    one.take(_delta(nonce="1", resource_names_unsubscribe=["web"]))
    assert _answer(one, {"web": _made(weight=9)}) is None
    one.take(_delta(resource_names_subscribe=["web"]))
    assert _answer(one, has) is not None


def test_a_refusal_in_delta_is_told_until_the_next_is_accepted() -> None:
    one = Delta()
    one.take(_delta(resource_names_subscribe=["web"]))
    _answer(one, {"web": _made()})
    one.take(_delta(nonce="1", refused=""))
    assert one.refused == "it gives no reason"
    assert _answer(one, {"web": _made()}) is None
    assert _answer(one, {"web": _made(weight=30)}) is not None
    one.take(_delta(nonce="2"))
    assert one.refused is None


@pytest.mark.parametrize("kind", [StateOfTheWorld, Delta])
def test_garbage_and_too_many_names_are_refused(kind: type[StateOfTheWorld | Delta]) -> None:
    with pytest.raises(BadRequest, match="DiscoveryRequest"):
        kind().take(b"\xff\xff\xff")
    names = [f"n{number}" for number in range(MOST_NAMES + 1)]
    many = _request(names) if kind is StateOfTheWorld else _delta(resource_names_subscribe=names)
    with pytest.raises(BadRequest, match="10001 clusters on one stream are more than 10000"):
        kind().take(many)
