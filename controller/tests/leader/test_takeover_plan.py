"""The declarations of a controller that begins to lead."""

from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.declarations.declaration import (
    UNCHANGED,
    Declaration,
    differences,
    with_file,
    with_patch,
)
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.leader.takeover_plan import plan_takeover
from steelyard_controller.store.interface import StoredDeclarations

A = Peer(id="a", address="10.0.0.1:80")
WEB = Upstream(peers=[A])
STORED = Declaration(upstream=with_patch(WEB, "a", {"state": "drain"}), revision=7)


def test_the_store_is_right() -> None:
    begun = plan_takeover(StoredDeclarations(known={"web": STORED}), None, {})
    assert (begun.declarations, begun.changes) == ({"web": STORED}, {})


def test_the_file_is_applied_once() -> None:
    first = plan_takeover(StoredDeclarations(known={}), None, {"web": WEB})
    assert first.changes == first.declarations
    again = plan_takeover(StoredDeclarations(known=first.declarations), None, {"web": WEB})
    assert (again.declarations, again.changes) == (first.declarations, {})


def test_whoever_led_last_knows_better_than_a_store_that_lost_something() -> None:
    own = {"web": STORED, "new": STORED}
    old = {"web": Declaration(upstream=WEB, revision=6), "deleted since": STORED}
    begun = plan_takeover(StoredDeclarations(known=old), own, {})
    assert begun.declarations == own
    assert begun.changes == {"web": STORED, "new": STORED, "deleted since": None}


def test_what_is_damaged_is_not_written_over() -> None:
    stored = StoredDeclarations(known={}, damaged=frozenset({"web", "api"}))
    begun = plan_takeover(stored, None, {"web": WEB})
    assert begun.declarations["web"].upstream == WEB
    assert begun.changes == {}
    assert "damaged" in begun.refused["web"]


def test_a_file_that_does_not_go_with_what_rest_set_is_refused_and_the_rest_goes_on() -> None:
    b = Peer(id="b", address="10.0.0.2:80")
    pinned = Declaration(upstream=Upstream(peers=[A.model_copy(update={"pin": 60.0}), b]))
    named = [{"id": "a", "address": "10.0.0.1:80"}, {"id": "b", "address": "10.0.0.2:80", "pin": 50}]
    file = {"web": Upstream.model_validate({"peers": named}), "api": WEB}
    begun = plan_takeover(StoredDeclarations(known={"web": pinned}), None, file)
    assert begun.declarations["web"] == pinned
    assert set(begun.changes) == {"api"}
    assert "the pins sum to 110 %" in begun.refused["web"]


PEERS = st.lists(
    st.builds(
        Peer,
        id=st.sampled_from("abcd"),
        address=st.sampled_from(["10.0.0.1:80", "10.0.0.2:80"]),
        state=st.sampled_from(["up", "drain"]),
    ),
    unique_by=lambda peer: peer.id,
)
UPSTREAMS = st.builds(Upstream, peers=PEERS, law=st.sampled_from(["steelyard", "static"]))


@given(UPSTREAMS, UPSTREAMS, UPSTREAMS)
def test_applying_a_file_twice_changes_nothing(
    first: Upstream, over_rest: Upstream, second: Upstream
) -> None:
    stored = with_file(None, first)
    assert stored is not None
    changed = stored.changed(over_rest)
    assert with_file(changed, first) is None
    applied = with_file(changed, second)
    if applied is not None:
        assert with_file(applied, second) is None
        is_change = differences(changed.upstream, applied.upstream) != UNCHANGED
        assert applied.revision == changed.revision + is_change
        # The file's fields count; fields that it never had stay.
        assert {peer.id for peer in second.peers} <= {peer.id for peer in applied.upstream.peers}
        strangers = {p.id for p in over_rest.peers} - {p.id for p in first.peers}
        assert strangers <= {peer.id for peer in applied.upstream.peers}


@given(st.dictionaries(st.sampled_from("xyz"), st.builds(Declaration, upstream=UPSTREAMS)), UPSTREAMS)
def test_beginning_twice_changes_nothing_more(known: dict[str, Declaration], section: Upstream) -> None:
    first = plan_takeover(StoredDeclarations(known=known), None, {"x": section})
    kept = {**known, **{name: d for name, d in first.changes.items() if d is not None}}
    assert kept == first.declarations
    assert plan_takeover(StoredDeclarations(known=kept), None, {"x": section}).changes == {}
