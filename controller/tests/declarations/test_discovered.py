"""Kubernetes' declarations and a person's: each has fields of its own, and keeps them."""

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.declarations.declaration import (
    Declaration,
    all_differences,
    decode,
    encode,
    with_file,
    with_patch,
    with_pods,
)
from steelyard_controller.declarations.discovered import Condition, Pod, with_pods_kept
from steelyard_controller.declarations.upstream import Peer, Upstream

SERVICE = "shop/web"


def pod(name: str, condition: Condition = "ready", address: str | None = None) -> Pod:
    return Pod(id=name, address=address or f"10.0.0.{ord(name[0]) - 96}:80", condition=condition)


def declared(*pods: Pod, before: Declaration | None = None) -> Declaration:
    """Return the declaration with these pods; it must change by them."""
    after = with_pods(before, service=SERVICE, pods=pods)
    assert after is not None
    return after


def states(declaration: Declaration) -> dict[str, str]:
    """Return the states in effect, as in the weight table."""
    return {peer.id: peer.state for peer in declaration.in_effect.peers}


def patched(declaration: Declaration, peer: str, **patch: object) -> Declaration:
    """Return the declaration after a person's change over REST."""
    return declaration.changed(with_patch(declaration.upstream, peer, patch))


def test_pods_become_servers_and_conditions_their_states() -> None:
    one = declared(pod("a"), pod("b", "unready"), pod("c", "terminating"))
    assert [(peer.id, peer.address) for peer in one.upstream.peers] == [
        ("a", "10.0.0.1:80"), ("b", "10.0.0.2:80"), ("c", "10.0.0.3:80"),
    ]  # fmt: skip
    assert states(one) == {"a": "up", "b": "down", "c": "drain"}
    assert one.revision == 1


def test_pods_that_only_terminate_serve_on_until_another_is_up() -> None:
    last = declared(pod("a", "terminating"), pod("b", "unready"))
    assert states(last) == {"a": "up", "b": "down"}
    assert states(declared(pod("a", "terminating"), pod("b"), before=last)) == {"a": "drain", "b": "up"}


def test_what_is_as_it_was_is_no_revision() -> None:
    one = declared(pod("a"), pod("b"))
    assert with_pods(one, service=SERVICE, pods=[pod("a"), pod("b")]) is None
    assert declared(pod("a"), before=one).revision == 2


@pytest.mark.parametrize("state", ["drain", "down", "backup"])
def test_a_persons_state_is_not_undone_by_readiness_and_readiness_is_back_after_it(state: str) -> None:
    one = patched(declared(pod("a"), pod("b")), "a", state=state)
    flapping: list[Condition] = ["ready", "unready", "ready"]
    for condition in flapping:
        after = with_pods(one, service=SERVICE, pods=[pod("a", condition), pod("b")]) or one
        assert states(after)["a"] == state
        one = after
    unready = declared(pod("a", "unready"), pod("b"), before=one)
    assert states(patched(unready, "a", state="up"))["a"] == "down"


def test_what_a_person_set_stays_while_the_pod_moves_and_goes_with_it() -> None:
    one = declared(pod("a"), pod("b"))
    one = patched(patched(one, "a", pin=25, baseline=3), "b", state="drain")
    one = one.changed(Upstream(**{**one.upstream.model_dump(), "law": "static"}))
    moved = declared(pod("a", address="10.0.9.9:81"), pod("b"), before=one)
    assert moved.upstream.law == "static"
    assert moved.upstream.peers[0] == Peer(id="a", address="10.0.9.9:81", baseline=3, pin=25)
    assert states(moved) == {"a": "up", "b": "drain"}
    gone = declared(pod("b"), before=moved)
    back = declared(pod("a"), pod("b"), before=gone)
    assert next(peer for peer in back.upstream.peers if peer.id == "a") == Peer(id="a", address="10.0.0.1:80")


def test_servers_that_are_no_pods_stay_and_one_that_was_registered_becomes_its_pod() -> None:
    hand = Upstream(peers=[Peer(id="vm", address="192.0.2.1:80"), Peer(id="a", address="10.0.0.1:80", pin=5)])
    one = declared(pod("a"), pod("b"), before=Declaration(upstream=hand))
    assert [peer.id for peer in one.upstream.peers] == ["vm", "a", "b"]
    assert one.upstream.peers[1].pin == 5
    assert [peer.id for peer in declared(before=one).upstream.peers] == ["vm"]


def test_what_the_file_declares_is_the_files() -> None:
    section = Upstream.model_validate({"peers": [{"id": "a", "address": "192.0.2.7:80"}]})
    filed = with_file(None, section)
    one = declared(pod("a", "unready"), pod("b"), before=filed)
    assert [(peer.id, peer.address) for peer in one.upstream.peers] == [
        ("a", "192.0.2.7:80"), ("b", "10.0.0.2:80"),
    ]  # fmt: skip
    assert states(one) == {"a": "up", "b": "up"}
    assert [peer.id for peer in declared(before=one).upstream.peers] == ["a"]


def test_an_edit_of_the_file_keeps_the_pods() -> None:
    filed = with_file(None, Upstream.model_validate({"law": "static"}))
    one = declared(pod("a"), pod("b", "unready"), before=filed)
    edited = with_file(one, Upstream.model_validate({"law": "paper"}))
    assert edited is not None
    assert edited.upstream.law == "paper"
    assert states(edited) == {"a": "up", "b": "down"}
    # A file that declares a pod takes it over; when it lets go, the next look declares the pod again.
    taken = with_file(edited, Upstream.model_validate({"peers": [{"id": "b", "address": "192.0.2.7:80"}]}))
    assert taken is not None
    assert states(taken) == {"a": "up", "b": "up"}
    let_go = with_file(taken, Upstream.model_validate({"law": "paper"}))
    assert states(declared(pod("a"), pod("b", "unready"), before=let_go)) == {"a": "up", "b": "down"}


def test_a_document_that_leaves_pods_out_or_has_old_addresses_takes_none_away() -> None:
    one = patched(declared(pod("a"), pod("b")), "b", pin=10)
    wanted = Upstream(
        law="static",
        peers=[Peer(id="a", address="10.9.9.9:80", state="drain"), Peer(id="vm", address="192.0.2.1:80")],
    )
    kept = with_pods_kept(wanted, one.upstream, one.pods)
    assert kept.law == "static"
    assert kept.peers == [
        Peer(id="a", address="10.0.0.1:80", state="drain"),
        Peer(id="vm", address="192.0.2.1:80"),
        Peer(id="b", address="10.0.0.2:80", pin=10),
    ]


def test_the_log_has_each_change_in_a_line() -> None:
    one = declared(pod("a"), pod("b"))
    assert all_differences(None, one) == "declared"
    two = declared(pod("a", "unready"), pod("b"), before=one)
    assert all_differences(one, two) == "a: pod ready -> unready"
    three = declared(pod("a", "terminating"), pod("c"), before=two)
    assert all_differences(two, three) == ("b removed; c added (10.0.0.3:80); a: pod unready -> terminating")
    assert all_differences(three, patched(three, "a", pin=5)) == "a: pin none -> 5"


def test_a_server_that_a_person_deletes_and_declares_anew_is_no_pod_any_more() -> None:
    one = declared(pod("a", "unready"), pod("b"))
    without = one.changed(Upstream(peers=[peer for peer in one.upstream.peers if peer.id != "a"]))
    anew = without.changed(Upstream(peers=[*without.upstream.peers, Peer(id="a", address="10.0.0.1:80")]))
    assert states(anew) == {"b": "up", "a": "up"}
    assert anew.pods == {"b": "ready"}


CONDITIONS: st.SearchStrategy[Condition] = st.sampled_from(get_args(Condition))
PODS = st.dictionaries(st.sampled_from("abcdef"), CONDITIONS).map(
    lambda conditions: [pod(name, condition) for name, condition in conditions.items()]
)


@given(st.lists(PODS, min_size=1, max_size=6), st.sampled_from([None, "drain", "down"]))
def test_the_pods_are_those_of_the_last_look_whatever_came_before(
    looks: list[list[Pod]], state: str | None
) -> None:
    one = Declaration(upstream=Upstream(peers=[Peer(id="vm", address="192.0.2.1:80")]))
    for pods in looks:
        one = with_pods(one, service=SERVICE, pods=pods) or one
        if state and "a" in one.pods:
            one = patched(one, "a", state=state)
    assert {peer.id for peer in one.upstream.peers} == {"vm", *(each.id for each in looks[-1])}
    assert one.pods == {each.id: each.condition for each in looks[-1]}
    assert decode(encode(one)) == one


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"shop/web"', "7"),
        lambda text: text.replace('"unready"', '"asleep"'),
        lambda text: text.replace('{"a":"unready"}', "[]"),
    ],
)
def test_a_damaged_declaration_is_not_taken_for_one_without_pods(damage: Callable[[str], str]) -> None:
    text = encode(declared(pod("a", "unready"))).decode()
    assert damage(text) != text
    assert decode(damage(text).encode()) == "its part from Kubernetes is damaged"


def test_a_pods_zone_is_kubernetes_and_outlives_what_a_person_does() -> None:
    one = declared(replace(pod("a"), zone="x"), pod("b"))
    assert [peer.zone for peer in one.upstream.peers] == ["x", None]
    assert decode(encode(one)) == one
    assert b'"zone":null' not in encode(declared(pod("b")))
    wanted = with_pods_kept(Upstream(peers=[Peer(id="a", address="10.9.9.9:80")]), one.upstream, one.pods)
    assert [peer.zone for peer in wanted.peers] == ["x", None]
    moved = declared(replace(pod("a"), zone="y"), pod("b"), before=one)
    assert [peer.zone for peer in moved.upstream.peers] == ["y", None]
