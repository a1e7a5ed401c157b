"""The address of each name, and of each peer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.dns import resolved_names
from steelyard_controller.dns.resolved_names import (
    Resolution,
    answered,
    choose,
    failed,
    is_due,
    look_up,
    names,
)


def peer(id: str, address: str) -> Peer:
    return Peer(id=id, address=address)


def resolution(ip: str | None, fault: str | None = None) -> Resolution:
    return Resolution(ip=ip, asked_at_s=0.0, fault=fault)


def test_the_first_answer_is_the_lowest_whatever_their_order() -> None:
    assert choose(None, ["10.0.0.9", "10.0.0.10"]) == "10.0.0.9"
    assert choose(None, ["10.0.0.10", "10.0.0.9"]) == "10.0.0.9"


def test_ipv4_within_ipv6_is_ipv4() -> None:
    assert resolved_names.choose(None, ["::ffff:10.0.0.1"]) == "10.0.0.1"
    assert resolved_names.answered(None, ["::ffff:10.0.0.1", "10.0.0.1"], asked_at_s=0).unused == 0


def test_ipv4_is_before_ipv6() -> None:
    assert choose(None, ["fd00::1", "10.0.0.9"]) == "10.0.0.9"


def test_an_address_is_kept_while_it_is_among_the_answers() -> None:
    assert choose("10.0.0.10", ["10.0.0.9", "10.0.0.10"]) == "10.0.0.10"
    assert choose("fd00::1", ["10.0.0.9", "FD00:0::1"]) == "fd00::1"
    assert choose("10.0.0.11", ["10.0.0.9", "10.0.0.10"]) == "10.0.0.9"


@pytest.mark.parametrize("answer", ["fe80::1%eth0", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "web-1", ""])  # noqa: S104
def test_what_nginx_cannot_connect_to_is_no_answer(answer: str) -> None:
    assert choose(None, [answer]) is None
    assert choose(None, [answer, "10.0.0.9"]) == "10.0.0.9"


@given(st.none() | st.ip_addresses(), st.lists(st.ip_addresses(), min_size=1))
def test_a_choice_is_stable(previous: object, answers: list[object]) -> None:
    texts = [str(answer) for answer in answers]
    first = choose(None if previous is None else str(previous), texts)
    assert choose(first, reversed(texts)) == first


def test_a_name_that_stops_resolving_keeps_its_last_address() -> None:
    known = answered(None, ["10.0.0.9"], asked_at_s=1.0)
    assert known == Resolution(ip="10.0.0.9", asked_at_s=1.0)
    assert failed(known, "no answer", asked_at_s=31.0) == Resolution(
        ip="10.0.0.9", asked_at_s=31.0, fault="cannot be resolved (no answer): its last address is kept"
    )
    emptied = answered(known, [], asked_at_s=31.0)
    assert emptied.ip == "10.0.0.9"
    assert emptied.fault == "cannot be resolved (no address that nginx could use): its last address is kept"


def test_a_name_that_never_resolved_has_no_address() -> None:
    known = failed(None, "Name or service not known", asked_at_s=1.0)
    assert known.ip is None
    assert known.fault == (
        "cannot be resolved (Name or service not known): its server is left out until it can"
    )


def test_a_name_is_due_when_its_time_is_up_and_sooner_after_a_failure() -> None:
    assert is_due(None, now_s=0.0, again_s=30.0)
    good, bad = Resolution(ip="10.0.0.9", asked_at_s=100.0), Resolution(ip=None, asked_at_s=100.0, fault="x")
    assert [is_due(good, now_s=at_s, again_s=30.0) for at_s in (129.9, 130.0)] == [False, True]
    assert [is_due(bad, now_s=at_s, again_s=30.0) for at_s in (104.9, 105.0)] == [False, True]
    assert is_due(bad, now_s=102.0, again_s=2.0)


def test_the_names_of_peers_are_each_told_once() -> None:
    peers = [peer("a", "Web:80"), peer("b", "10.0.0.1:80"), peer("c", "web:81"), peer("d", "api:80")]
    assert names(peers) == ["web", "api"]


def test_peers_have_their_own_address_or_that_of_their_name() -> None:
    peers = [peer("a", "10.0.0.1:80"), peer("b", "web:81"), peer("c", "six:82"), peer("d", "[FD00::1]:83")]
    addresses = look_up({"web": resolution("10.0.0.2"), "six": resolution("fd00::2")}, peers)
    assert addresses.by_peer == {
        "a": "10.0.0.1:80", "b": "10.0.0.2:81", "c": "[fd00::2]:82", "d": "[fd00::1]:83",
    }  # fmt: skip
    assert addresses.faults == {}


def test_a_peer_whose_name_was_never_resolved_has_none_and_a_fault() -> None:
    addresses = look_up({"gone": resolution(None, "why")}, [peer("a", "web:80"), peer("b", "gone:80")])
    assert addresses.by_peer == {"a": None, "b": None}
    assert addresses.faults == {"name web": resolved_names.NOT_YET, "name gone": "why"}


def test_a_peer_whose_name_stopped_resolving_has_an_address_and_a_fault() -> None:
    addresses = look_up({"web": resolution("10.0.0.2", "why")}, [peer("a", "web:80")])
    assert addresses.by_peer == {"a": "10.0.0.2:80"}
    assert addresses.faults == {"name web": "why"}


def test_a_name_with_several_addresses_is_one_server_and_a_fault_says_so() -> None:
    known = answered(None, ["10.0.0.3", "10.0.0.2", "10.0.0.2", "fd00::1"], asked_at_s=1.0)
    assert (known.ip, known.unused) == ("10.0.0.2", 1)
    assert look_up({"web": known}, [peer("a", "web:80")]).faults == {
        "name web": "has 2 addresses, and only 10.0.0.2 is used: declare a server for each address, or a name"
        " that has one"
    }


def test_an_address_of_each_family_is_one_server() -> None:
    known = answered(None, ["10.0.0.2", "fd00::1"], asked_at_s=1.0)
    assert look_up({"web": known}, [peer("a", "web:80")]).faults == {}
