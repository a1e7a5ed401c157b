import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from steelyard_controller.declarations.declaration import (
    Declaration,
    Unknown,
    decode,
    differences,
    encode,
    with_file,
    with_patch,
    with_peer,
    without_peer,
)
from steelyard_controller.declarations.upstream import Blend, Check, Indicator, Peer, Upstream

A = Peer(id="a", address="10.0.0.1:80")
B = Peer(id="b", address="10.0.0.2:80", baseline=2)
WEB = Upstream(peers=[A, B])


def section(*peers: dict[str, object], **fields: object) -> Upstream:
    """Return a section as from the YAML file: only the given fields are set."""
    return Upstream.model_validate({"peers": list(peers), **fields})


FILE = section({"id": "a", "address": "10.0.0.1:80"}, {"id": "b", "address": "10.0.0.2:80"})

DECLARATIONS = st.builds(
    Declaration,
    upstream=st.builds(
        Upstream,
        law=st.just("static"),
        shadows=st.sampled_from([{}, {"paper": {"H": 0.7}}]),
        blend=st.none() | st.just(Blend(law="cswrr", percent=20)),
        hash_key=st.sampled_from([None, "uri", "header:X-Session"]),
        check=st.none() | st.just(Check.model_validate({"path": "/healthz"})),
        indicators=st.sampled_from([None, {"cpu": Indicator(), "workers": Indicator(knee=0.5)}]),
        peers=st.lists(
            st.builds(
                Peer,
                id=st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True),
                address=st.sampled_from(["10.0.0.1:80", "[::1]:80"]),
                baseline=st.none() | st.floats(0.001, 1e6),
                state=st.sampled_from(["up", "drain", "down", "backup"]),
            ),
            unique_by=lambda peer: peer.id,
            max_size=5,
        ),
    ),
    revision=st.integers(1, 2**53),
    file_digest=st.none() | st.text(max_size=64),
    file_peers=st.lists(st.text(max_size=8)).map(tuple),
)


@given(DECLARATIONS)
def test_a_declaration_survives_the_store(declaration: Declaration) -> None:
    assert decode(encode(declaration)) == declaration


@given(
    st.binary(max_size=100)
    | st.sampled_from([b"[" * 50_000, b"null", b'{"v":1}', b'{"v":1,"revision":true}'])
)
def test_what_is_no_declaration_says_why(value: bytes) -> None:
    assert isinstance(decode(value), str)


@given(
    DECLARATIONS,
    st.sampled_from(["v", "revision", "file_peers", "upstream"]),
    st.none() | st.text(max_size=3),
)
def test_a_damaged_declaration_says_why(declaration: Declaration, field: str, junk: str | None) -> None:
    document = json.loads(encode(declaration))
    document[field] = junk
    assert isinstance(decode(json.dumps(document).encode()), str)


def test_a_drain_over_rest_outlives_an_edit_of_the_file() -> None:
    stored = with_file(None, FILE)
    assert stored is not None
    drained = stored.changed(with_patch(stored.upstream, "a", {"state": "drain"}))
    edited = section(
        {"id": "a", "address": "10.9.9.9:80"}, {"id": "b", "address": "10.0.0.2:80"}, law="static"
    )
    applied = with_file(drained, edited)
    assert applied is not None
    a = applied.upstream.peers[0]
    assert (a.state, a.address, applied.upstream.law) == ("drain", "10.9.9.9:80", "static")


def test_what_the_file_names_wins_once_it_is_edited() -> None:
    stored = with_file(None, FILE)
    assert stored is not None
    drained = stored.changed(with_patch(stored.upstream, "a", {"state": "drain"}))
    edited = section(
        {"id": "a", "address": "10.0.0.1:80", "state": "up"}, {"id": "b", "address": "10.0.0.2:80"}
    )
    applied = with_file(drained, edited)
    assert applied is not None
    assert applied.upstream.peers[0].state == "up"


@pytest.mark.parametrize("field", ["max_conns", "indicators"])
def test_a_null_that_is_added_to_the_file_lifts_what_was_set_over_rest(field: str) -> None:
    stored = with_file(None, FILE)
    assert stored is not None
    value = {"max_conns": 50, "indicators": {"cpu": Indicator()}}[field]
    limited = stored.changed(stored.upstream.model_copy(update={field: value}))
    assert with_file(limited, FILE) is None
    edited = Upstream.model_validate({"peers": FILE.model_dump(exclude_unset=True)["peers"], field: None})
    applied = with_file(limited, edited)
    assert applied is not None
    assert getattr(applied.upstream, field) is None


def test_a_null_that_is_added_to_a_server_of_the_file_lifts_what_was_set_over_rest() -> None:
    stored = with_file(None, FILE)
    assert stored is not None
    moved = stored.changed(with_patch(stored.upstream, "a", {"zone": "z", "max_conns": 5}))
    a, b = FILE.model_dump(exclude_unset=True)["peers"]
    applied = with_file(moved, section(a | {"zone": None, "max_conns": None}, b))
    assert applied is not None
    assert applied.upstream.peers == FILE.peers


def test_a_file_with_its_servers_in_another_order_changes_nothing() -> None:
    stored = with_file(None, FILE)
    assert stored is not None
    section_reordered = FILE.model_copy(update={"peers": FILE.peers[::-1]})
    applied = with_file(stored, section_reordered)
    assert applied is not None
    assert (applied.upstream, applied.revision) == (stored.upstream, stored.revision)
    assert with_file(applied, section_reordered) is None


def test_a_peer_that_leaves_the_file_is_gone_and_a_registered_one_stays() -> None:
    stored = with_file(None, FILE)
    assert stored is not None
    registered = stored.changed(with_peer(stored.upstream, Peer(id="c", address="10.0.0.3:80")))
    applied = with_file(registered, section({"id": "b", "address": "10.0.0.2:80"}))
    assert applied is not None
    assert [peer.id for peer in applied.upstream.peers] == ["b", "c"]


def test_a_patch_of_an_unknown_field_is_refused_and_changes_nothing() -> None:
    before = WEB.model_dump()
    with pytest.raises(ValidationError):
        with_patch(WEB, "a", {"stat": "drain"})
    with pytest.raises(ValidationError):
        with_patch(WEB, "a", {"stat": None})
    with pytest.raises(Unknown, match="there is no peer z; there are: a, b"):
        with_patch(WEB, "z", {"state": "drain"})
    assert WEB.model_dump() == before


def test_null_in_a_patch_sets_the_default() -> None:
    assert with_patch(WEB, "b", {"baseline": None}).peers[1].baseline is None
    with pytest.raises(ValidationError):
        with_patch(WEB, "b", {"address": None})


def test_a_peer_keeps_its_place_when_it_changes_and_comes_last_when_it_is_new() -> None:
    moved = with_peer(WEB, Peer(id="a", address="10.1.1.1:80"))
    assert [peer.id for peer in moved.peers] == ["a", "b"]
    assert [peer.id for peer in with_peer(WEB, Peer(id="0", address="10.1.1.1:80")).peers] == ["a", "b", "0"]
    assert [peer.id for peer in without_peer(WEB, "a").peers] == ["b"]
    with pytest.raises(Unknown):
        without_peer(WEB, "z")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, WEB, "declared"),
        (WEB, None, "deleted"),
        (WEB, WEB, "nothing changed"),
        (WEB, with_patch(WEB, "a", {"state": "drain"}), "a: state up -> drain"),
        (WEB, with_patch(WEB, "b", {"baseline": None, "pin": 25}), "b: baseline 2 -> none, pin none -> 25"),
        (WEB, without_peer(WEB, "b"), "b removed"),
        (
            Upstream(),
            section(indicators={"cpu": {}, "workers": {"knee": 0.5}}),
            "indicators none -> {cpu: {}, workers: {knee: 0.5}}",
        ),
        (Upstream(), section(check={"path": "/healthz"}), "check none -> {path: /healthz}"),
        (
            section(check={"path": "/healthz"}),
            section(check={"path": "/healthz", "interval_s": 5, "statuses": [200, 204]}),
            "check.statuses none -> [200, 204]; check.interval_s 2 -> 5",
        ),
        (
            section(check={"path": "/", "tls": True, "tls_server_name": "web.internal"}),
            section(check={"path": "/", "tls": True, "tls_verify": False}),
            "check.tls_server_name web.internal -> none; check.tls_verify true -> false",
        ),
        (
            section(blend={"law": "paper", "percent": 10}),
            section(blend={"law": "paper", "percent": 50}, load_balancers=["edge-1", "edge-2"]),
            "blend.percent 10 -> 50; load_balancers [edge-1] -> [edge-1, edge-2]",
        ),
        (
            section(shadows={"paper": {}}, parameters={"H": 0.1 + 0.2}),
            section(parameters={"H": 0.5}, max_conns=1_000_000),
            "parameters.H 0.3 -> 0.5; shadows.paper {} -> none; max_conns none -> 1000000",
        ),
        (Upstream(), Upstream(picker="chash", peers=[A]), "picker vnswrr2 -> chash; a added (10.0.0.1:80)"),
    ],
)
def test_a_change_is_said_in_a_line(before: Upstream | None, after: Upstream | None, said: str) -> None:
    assert differences(before, after) == said


def test_an_earlier_controller_reads_a_declaration_that_has_no_indicators() -> None:
    document = json.loads(encode(Declaration(upstream=WEB)))
    assert "indicators" not in document["upstream"]
    assert "indicators" not in WEB.model_dump_json()
    declared = section(indicators={"workers": {}})
    assert json.loads(encode(Declaration(upstream=declared)))["upstream"]["indicators"] == {
        "workers": {"knee": None}
    }


def test_the_four_count_where_no_indicator_is_declared_and_come_first_where_some_are() -> None:
    assert dict(WEB.knees) == dict.fromkeys(["cpu", "net", "io", "mem"])
    declared = section(indicators={"queue": {}, "mem": {"knee": 0.9}, "a": {"knee": 0.5}, "cpu": {}})
    assert list(declared.knees.items()) == [("cpu", None), ("mem", 0.9), ("queue", None), ("a", 0.5)]


@pytest.mark.parametrize(
    ("indicators", "said"),
    [
        ({}, "at least 1 item"),
        ({"Workers": {}}, "should match pattern"),
        ({"kv-cache": {}}, "should match pattern"),
        ({"workers": {"knee": 1}}, "less than or equal to 0.99"),
        ({"workers": {"knee": -0.1}}, "greater than or equal to 0"),
        ({"workers": {"limit": 8}}, "Extra inputs are not permitted"),
        ({f"pool_{i}": {} for i in range(13)}, "13 indicators beside cpu, net, io and mem"),
    ],
)
def test_indicators_that_cannot_be_say_why(indicators: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        section(indicators=indicators)


def test_the_indicator_max_conns_needs_a_limit_of_each_server() -> None:
    of_in_flight: dict[str, object] = {"max_conns": {}}
    with pytest.raises(ValidationError, match="declare max_conns for the upstream, too"):
        section(indicators=of_in_flight, peers=[A])
    assert section(indicators=of_in_flight, peers=[A], max_conns=64).indicators
    limited = A.model_copy(update={"max_conns": 64})
    assert section(indicators=of_in_flight, peers=[limited]).indicators


def test_the_files_indicators_win_and_those_of_rest_stay_where_it_names_none() -> None:
    declared = section(indicators={"cpu": {}, "workers": {}}).model_copy(update={"peers": [A]})
    stored = Declaration(upstream=declared)
    kept = with_file(stored, FILE)
    assert kept is not None
    assert list(kept.upstream.knees) == ["cpu", "workers"]
    other = with_file(stored, section(indicators={"mem": {"knee": 0.5}}))
    assert other is not None
    assert dict(other.upstream.knees) == {"mem": 0.5}
