"""The entries of the audit log: their contents and their largest size."""

import json
from dataclasses import replace
from typing import Any, get_args

from steelyard_controller.declarations import audit
from steelyard_controller.declarations.audit import LOGS, Author, Entry
from steelyard_controller.declarations.declaration import Declaration, with_patch, with_peer, without_peer
from steelyard_controller.declarations.discovered import Discovered
from steelyard_controller.declarations.upstream import Peer, Upstream

ANNA = Author(name="anna", kind="token", address="10.0.0.9", via="controller-2")
WEB = Declaration(
    upstream=Upstream(law="static", peers=[Peer(id=n, address="10.0.0.1:80", baseline=2) for n in "ab"])
)


def written(by: Author, before: Declaration | None, after: Declaration | None, *, at_ms: int) -> Entry:
    entry = audit.entry(by, "web", before, after, at_ms=at_ms)
    assert entry is not None
    return entry


def said(before: Declaration | None, after: Declaration | None, by: Author = ANNA) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(written(by, before, after, at_ms=5).value)
    return document


def test_a_drain_is_said_with_who_what_before_and_after() -> None:
    after = WEB.changed(with_patch(WEB.upstream, "a", {"state": "drain"}))
    assert said(WEB, after) == {
        "at_ms": 5,
        "who": "anna",
        "kind": "token",
        "address": "10.0.0.9",
        "via": "controller-2",
        "upstream": "web",
        "revision": 2,
        "what": "a: state up -> drain",
        "changes": [{"field": "peers.a.state", "before": "up", "after": "drain"}],
        "more": 0,
    }


def test_what_comes_and_goes_is_said_whole() -> None:
    added = WEB.changed(with_peer(WEB.upstream, Peer(id="c", address="10.0.0.3:80", pin=25)))
    assert said(WEB, added)["changes"] == [
        {"field": "peers.c.address", "before": None, "after": "10.0.0.3:80"},
        {"field": "peers.c.pin", "before": None, "after": 25.0},
    ]
    removed = WEB.changed(without_peer(WEB.upstream, "b"))
    assert said(WEB, removed)["changes"] == [
        {"field": "peers.b.address", "before": "10.0.0.1:80", "after": None},
        {"field": "peers.b.baseline", "before": 2.0, "after": None},
    ]
    for before, after, what, revision in ((None, WEB, "declared", 1), (WEB, None, "deleted", None)):
        document = said(before, after)
        assert (document["what"], document["revision"]) == (what, revision)
        fields = {change["field"]: (change["before"], change["after"]) for change in document["changes"]}
        whole = {"law": "static", "peers.a.address": "10.0.0.1:80", "peers.b.baseline": 2.0}
        for field, value in whole.items():
            assert fields[field] == ((None, value) if before is None else (value, None))


def test_a_field_of_the_upstream_is_said_with_its_value_of_before() -> None:
    after = WEB.changed(Upstream(**{**dict(WEB.upstream), "law": "steelyard"}))
    assert said(WEB, after)["changes"] == [{"field": "law", "before": "static", "after": "steelyard"}]


def test_a_pod_that_is_not_ready_is_said() -> None:
    def pods(**conditions: Any) -> Declaration:
        discovered = Discovered(service="shop/web", conditions=conditions)
        return Declaration(upstream=WEB.upstream, discovered=discovered)

    cluster = Author(name="Service shop/web", kind="kubernetes")
    assert said(pods(a="ready", b="ready"), pods(a="ready", b="unready"), cluster)["changes"] == [
        {"field": "pods.b", "before": "ready", "after": "unready"}
    ]


def test_people_machines_and_files_have_logs_of_their_own() -> None:
    logs = {
        kind: LOGS[written(Author(name="x", kind=kind), None, WEB, at_ms=1).log]
        for kind in get_args(audit.Kind)
    }
    assert logs == {
        "token": "people", "person": "people", "controller": "people",
        "agent": "machines", "kubernetes": "machines", "file": "files",
    }  # fmt: skip


def test_a_change_of_nothing_has_no_entry() -> None:
    other_order = Upstream(law="static", peers=WEB.upstream.peers[::-1])
    assert audit.entry(ANNA, "web", WEB, WEB.changed(other_order), at_ms=5) is None


def test_a_service_that_takes_an_upstream_over_is_said() -> None:
    taken = replace(WEB, discovered=Discovered(service="shop/web", conditions={}), revision=2)
    assert said(WEB, taken)["what"] == "Service none -> shop/web"


def test_an_entry_of_a_huge_change_is_bounded() -> None:
    peers = [Peer(id=f"server-{n}", address=f"{'h' * 60}.example.org:80") for n in range(10_000)]
    names = [f"edge-{n}" for n in range(10_000)]
    entry = written(ANNA, None, Declaration(upstream=Upstream(peers=peers, load_balancers=names)), at_ms=5)
    assert len(entry.value) < 60_000
    document = json.loads(entry.value)
    assert len(document["changes"]) == 50
    assert document["more"] > 9_900
    balancers = next(each for each in document["changes"] if each["field"] == "load_balancers")
    assert balancers["after"].startswith('["edge-0", ')
    assert balancers["after"].endswith("…")


def test_what_cannot_be_read_is_left_out() -> None:
    good = written(ANNA, None, WEB, at_ms=5).value
    stored = [(9, good), (8, b"\xff"), (7, b"[]"), (6, b"[" * 100_000), (5, good.replace(b"web", b"api"))]
    assert [each["id"] for each in audit.decoded(stored, None)] == [9, 5]
    assert [each["id"] for each in audit.decoded(stored, "api")] == [5]


def test_entries_are_chosen_by_origin_wherever_they_were_kept() -> None:
    kinds: list[audit.Kind] = ["token", "agent", "file", "person", "kubernetes"]
    stored = [
        (number, written(Author(name="x", kind=kind), None, WEB, at_ms=5).value)
        for number, kind in enumerate(kinds)
    ]
    chosen = {log: [each["kind"] for each in audit.decoded(stored, "web", log)] for log in LOGS}
    assert chosen == {
        "people": ["token", "person"], "machines": ["agent", "kubernetes"], "files": ["file"],
    }  # fmt: skip
    unknown = [(9, stored[0][1].replace(b'"token"', b'"later"'))]
    assert [len(audit.decoded(unknown, None, each)) for each in (None, *LOGS)] == [1, 0, 0, 0]
