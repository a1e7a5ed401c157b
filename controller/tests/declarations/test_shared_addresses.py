"""Servers with one address: the one that serves is in the table, and a fault names the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.declarations import shared_addresses
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.discovered import Discovered
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.tick.cycle import Cycle
from steelyard_protocol.weight_table import State

from ..examples import advance


def peer(name: str, address: str, state: State = "up") -> Peer:
    return Peer(id=name, address=address, state=state)


def in_table(
    declaration: Declaration, addresses: dict[str, str] | None = None
) -> tuple[list[str], str | None]:
    """Return the servers in the first table, and the fault."""
    cycle = Cycle("web", declaration, tick_s=1.0)
    outcome, _ = advance(cycle, {}, now_s=1.0, term=1, issued_at_ms=0, addresses=addresses or {})
    fault = cycle.faults["addresses"]
    return [each.id for each in outcome.table.peers], None if fault is None else str(fault)


def test_the_server_that_is_declared_first_has_the_address_and_the_fault_names_both() -> None:
    declared = [peer("a", "10.0.0.1:80"), peer("typo", "10.0.0.1:80"), peer("b", "10.0.0.2:80")]
    assert in_table(Declaration(upstream=Upstream(peers=declared))) == (
        ["a", "b"],
        "servers have one address: typo and a (10.0.0.1:80). The first of each pair gets no requests of its"
        " own: correct its address or remove it",
    )


@pytest.mark.parametrize("first", ["drain", "down", "backup"])
def test_a_server_that_serves_has_the_address_of_one_that_does_not(first: State) -> None:
    declared = [peer("old", "10.0.0.1:80", first), peer("new", "10.0.0.1:80")]
    assert in_table(Declaration(upstream=Upstream(peers=declared)))[0] == ["new"]


def test_a_pod_on_a_nodes_network_takes_over_from_the_one_that_ends() -> None:
    declared = [peer("old", "10.0.0.1:80"), peer("new", "10.0.0.1:80"), peer("b", "10.0.0.2:80")]
    conditions = Discovered(
        service="shop/web", conditions={"old": "terminating", "new": "ready", "b": "ready"}
    )
    there, fault = in_table(Declaration(upstream=Upstream(peers=declared), discovered=conditions))
    assert there == ["new", "b"]
    assert fault is not None
    assert "old and new" in fault


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[fd00::1]:80", "[FD00::1]:80"),
        ("[fd00::1]:80", "[fd00:0::1]:0080"),
        ("10.0.0.1:80", "10.0.0.1:0080"),
        ("10.0.0.1:80", "[::ffff:10.0.0.1]:80"),
    ],
)
def test_another_spelling_is_the_same_address(one: str, other: str) -> None:
    declared = [peer("a", one), peer("b", other)]
    there, fault = in_table(Declaration(upstream=Upstream(peers=declared)))
    assert there == ["a"]
    assert fault is not None
    assert f"b and a ({other})" in fault, "as it was typed"


def test_a_name_that_resolves_to_another_servers_address_is_found() -> None:
    declared = Declaration(upstream=Upstream(peers=[peer("a", "10.0.0.1:80"), peer("b", "web-1.example:80")]))
    assert in_table(declared, {"b": "10.0.0.1:80"})[0] == ["a"]
    spelled = [peer("a", "10.0.0.1:0080"), *declared.upstream.peers[1:]]
    assert in_table(Declaration(upstream=Upstream(peers=spelled)), {"b": "10.0.0.1:80"})[0] == ["a"]
    assert in_table(declared, {"b": "10.0.0.2:80"}) == (["a", "b"], None)


def test_a_declared_address_is_before_a_names() -> None:
    declared = Declaration(upstream=Upstream(peers=[peer("a", "web:80"), peer("b", "10.0.0.2:80")]))
    assert in_table(declared, {"a": "10.0.0.2:80"})[0] == ["b"]


ADDRESSES = st.sampled_from([f"10.0.0.{host}:80" for host in range(1, 5)])
STATES = st.sampled_from(["up", "backup", "drain", "down"])


@given(st.lists(st.tuples(ADDRESSES, STATES), min_size=1, max_size=8))
def test_each_address_has_one_server_and_none_that_serves_better_is_left_out(
    servers: list[tuple[str, State]],
) -> None:
    peers = [peer(f"p{n}", address, state) for n, (address, state) in enumerate(servers)]
    left_out = shared_addresses.hidden(peers)
    there = {each.address: each for each in shared_addresses.without(peers, left_out)}
    assert there.keys() == {each.address for each in peers}
    assert len(there) == len(peers) - len(left_out)
    ranks = shared_addresses.RANKS
    assert all(ranks[there[each.address].state] <= ranks[each.state] for each in peers)
