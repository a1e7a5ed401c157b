"""Traffic reports and weight tables, on the example files of both ends."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from steelyard_protocol import traffic_report, upstream_list, weight_table, wire
from steelyard_protocol.wire import Refused

CONTRACT = Path(__file__).parents[2] / "docs" / "contract"
CHECK = {
    "path": "/", "statuses": None, "interval_s": 2.0, "timeout_s": 1.0, "rise": 2, "fall": 3, "host": None,
    "tls": False, "tls_server_name": None, "tls_verify": True, "grpc_service": None,
}  # fmt: skip
DECODERS: dict[str, Callable[[bytes], Any]] = {
    "traffic.json": traffic_report.decode, "weights.json": weight_table.decode,
    "upstreams.json": upstream_list.decode,
}  # fmt: skip


def _cases(kind: str) -> list[Any]:
    return [
        pytest.param(name, case, id=f"{name}: {case['about']}")
        for name in DECODERS
        for case in json.loads((CONTRACT / name).read_text())[kind]
    ]


@pytest.mark.parametrize(("name", "case"), _cases("accepted"))
def test_accepts_the_examples(name: str, case: dict[str, Any]) -> None:
    decoded = DECODERS[name](json.dumps(case["value"]).encode())
    assert not isinstance(decoded, Refused), decoded


@pytest.mark.parametrize(("name", "case"), _cases("refused"))
def test_refuses_the_examples_and_says_why(name: str, case: dict[str, Any]) -> None:
    decoded = DECODERS[name](case["text"].encode())
    assert isinstance(decoded, Refused)
    assert decoded.reason == case["reason"], decoded


def test_a_server_whose_id_is_a_number_has_no_name() -> None:
    text = weight_table.to_json(_table()).replace(b'"id":"a"', b'"id":7')
    decoded = weight_table.decode(text)
    assert isinstance(decoded, Refused)
    assert decoded.reason == "name"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "weights.json",
            '{"v":1,"upstream":"a","law":"a","picker":"a","term":1,"generation":1,"issued_at_ms":1,"peers":[],'
            '"check":{"path":%s}}',
        ),
        (
            "traffic.json",
            '{"v":1,"upstream":"a","lb":"a","boot":"a","seq":%s,"sent_at_ms":1,"interval_s":1,"ids":[]}',
        ),
    ],
)
def test_refuses_what_is_nested_as_deep_as_can_just_be_parsed(name: str, text: str) -> None:
    # The depth depends on the depth of the parser's own call.
    for depth in range(800, 1000):
        nested = "[" * depth + "]" * depth
        assert isinstance(DECODERS[name]((text % nested).encode()), Refused)


@pytest.mark.parametrize("name", DECODERS)
def test_refuses_what_is_too_large(name: str) -> None:
    decoded = DECODERS[name](b"0" * 9_000_000)
    assert isinstance(decoded, Refused)
    assert decoded.reason == "too_large"


@pytest.mark.parametrize("case", json.loads((CONTRACT / "head.json").read_text())["accepted"])
def test_the_example_heads_are_those_of_the_tables_after(case: dict[str, str]) -> None:
    before, after = weight_table.decode(case["before"].encode()), weight_table.decode(case["after"].encode())
    assert isinstance(before, weight_table.WeightTable)
    assert isinstance(after, weight_table.WeightTable)
    assert weight_table.encode_head(after).decode() == case["head"]
    assert weight_table.to_json(before).decode() == case["before"]
    assert weight_table.with_digest(before) == before
    assert weight_table.with_digest(after).digest == before.digest


@pytest.mark.parametrize(
    "member",
    ["law", "picker", "hash_key", "reporters", "check", "id", "address", "baseline", "state"],
)
def test_whatever_the_head_has_not_changes_the_digest(member: str) -> None:
    peer: dict[str, Any] = {"id": "b", "address": "10.0.0.2:80", "baseline": 2, "state": "drain"}
    more: dict[str, Any] = {
        "law": "paper",
        "picker": "hcl",
        "hash_key": "uri",
        "reporters": ("edge-1",),
        "check": CHECK,
    }
    table = _table()
    if member in peer:
        rows = (replace(table.peers[0], **{member: peer[member]}),)
        other = replace(table, peers=rows)
    else:
        other = replace(table, **{member: more[member]})
    assert weight_table.with_digest(other).digest != weight_table.with_digest(table).digest


@pytest.mark.parametrize("case", json.loads((CONTRACT / "head.json").read_text())["distinct"])
def test_the_example_tables_that_are_distinct_have_distinct_digests(case: dict[str, str]) -> None:
    one, other = weight_table.decode(case["one"].encode()), weight_table.decode(case["other"].encode())
    assert isinstance(one, weight_table.WeightTable)
    assert isinstance(other, weight_table.WeightTable)
    assert weight_table.with_digest(one) == one
    assert weight_table.with_digest(other) == other
    assert one.digest != other.digest


def test_order_time_and_weights_leave_the_digest() -> None:
    table = _table()
    rows = (replace(table.peers[0], weight=7),)
    other = replace(table, term=4, generation=1, issued_at_ms=9, peers=rows)
    assert weight_table.with_digest(other).digest == weight_table.with_digest(table).digest


def test_a_list_of_the_most_and_longest_names_fits_an_item() -> None:
    names = tuple(f"{number:064}" for number in range(upstream_list.MAX_NAMES))
    listed = upstream_list.UpstreamList(v=1, term=2**53, generation=2**53, issued_at_ms=2**53, names=names)
    value = upstream_list.encode(listed)
    assert len(value) < wire.MAX_BYTES - 1024
    assert upstream_list.decode(value) == listed
    more = upstream_list.decode(value.replace(b"[", b'["0",', 1))
    assert isinstance(more, Refused)
    assert more.reason == "range"


def test_a_weight_table_survives_the_wire() -> None:
    value = json.dumps(json.loads((CONTRACT / "weights.json").read_text())["accepted"][0]["value"]).encode()
    table = weight_table.decode(value)
    assert isinstance(table, weight_table.WeightTable)
    assert weight_table.decode(weight_table.encode(table)) == table
    assert json.loads(weight_table.encode(table)) == json.loads(value)


def _table(**members: Any) -> weight_table.WeightTable:
    peer = weight_table.TablePeer(id="a", address="10.0.0.1:80", weight=1, baseline=1, state="up")
    return weight_table.WeightTable(
        upstream="web", term=3, generation=118, issued_at_ms=0, law="static", picker="chash", peers=(peer,),
        **members,
    )  # fmt: skip


def test_a_table_without_check_and_hash_key_leaves_them_out() -> None:
    assert list(json.loads(weight_table.encode(_table()))) == [
        "v", "upstream", "term", "generation", "issued_at_ms", "law", "picker", "reporters", "peers",
    ]  # fmt: skip


@pytest.mark.parametrize("rung", traffic_report.RUNGS)
def test_a_report_s_rung_and_order_are_read(rung: str) -> None:
    document = json.loads((CONTRACT / "traffic.json").read_text())["accepted"][0]["value"]
    before = traffic_report.decode(json.dumps(document).encode())
    now = traffic_report.decode(json.dumps({**document, "rung": rung, "order": [3, 118]}).encode())
    assert isinstance(before, traffic_report.TrafficReport)
    assert isinstance(now, traffic_report.TrafficReport)
    assert (before.rung, before.order) == (None, None)
    assert (now.rung, now.order) == (rung, (3, 118))
    assert (now.ids, now.completed) == (before.ids, before.completed) == (["server-1", "server-2"], [812, 0])


def _reports() -> list[tuple[dict[str, Any], traffic_report.TrafficReport]]:
    pairs = []
    for case in json.loads((CONTRACT / "traffic.json").read_text())["accepted"]:
        report = traffic_report.decode(json.dumps(case["value"]).encode())
        assert isinstance(report, traffic_report.TrafficReport)
        pairs.append((case["value"], report))
    return pairs


def test_a_report_s_columns_are_read() -> None:
    for value, report in _reports():
        for name in ("ids", "completed", "failed", "in_flight", "latency_ms"):
            assert getattr(report, name) == value[name]
        assert report.latency_p50_ms == value.get("latency_p50_ms", [None] * len(report.ids))
        assert report.cost == value.get("cost")
        completed = dict(zip(value["ids"], value["completed"], strict=True))
        assert all(completed[peer] == done for peer, (done, _) in report.loads.items())
        assert {peer: _said(load) for peer, (_, load) in report.loads.items()} == value.get("loads", {})
    assert any(report.loads for _, report in _reports())
    assert any(report.cost for _, report in _reports())
    assert any(any(report.latency_p50_ms) for _, report in _reports())


def test_a_report_that_is_written_is_read_as_it_was() -> None:
    for _, report in _reports():
        report = replace(report, loads={}, cost=None)
        text = traffic_report.encode(report)
        assert json.loads(text)["v"] == wire.VERSION
        assert traffic_report.decode(text) == report


def _said(load: traffic_report.PeerLoad) -> dict[str, Any]:
    figures = {"utilization": load.utilization, "mem_utilization": load.mem_utilization}
    known: dict[str, Any] = {name: value for name, value in figures.items() if value is not UNSET}
    return {**known, **({"named_metrics": load.named_metrics} if load.named_metrics else {})}


def _peers(count: int, **members: Any) -> tuple[weight_table.TablePeer, ...]:
    row = {"weight": 20, "baseline": 20, "state": "up", **members}
    return tuple(
        weight_table.TablePeer(
            id=f"server-{n:05}", address=f"10.{n // 62500}.{n // 250 % 250}.{n % 250}:8080", **row
        )
        for n in range(count)
    )


def test_a_table_that_nginx_would_not_read_is_a_clear_error() -> None:
    with pytest.raises(weight_table.TableTooLarge, match=r"web has 100000 peers .* split the upstream"):
        weight_table.encode(replace(_table(), peers=_peers(100_000)))


def test_fifty_thousand_peers_with_the_largest_weights_are_a_table() -> None:
    most = weight_table.MAX_WEIGHT
    weight_table.encode(replace(_table(), peers=_peers(50_000, weight=most, baseline=most, state="backup")))


@pytest.mark.parametrize("name", DECODERS)
@given(
    value=st.binary(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    ["v", "upstream", "peers", "ids", "id", "weight", "term", "check", "order", "x"]
                ),
                inner,
                max_size=6,
            )
        ),
    ).map(lambda document: json.dumps(document).encode())
)
def test_never_raises(name: str, value: bytes) -> None:
    DECODERS[name](value)


@given(
    member=st.sampled_from(list(CHECK)),
    value=st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=5)
    | st.lists(st.integers()),
)
def test_a_check_s_member_of_any_kind_is_taken_or_refused(member: str, value: object) -> None:
    document = weight_table.to_document(_table(check=CHECK))
    document["check"][member] = value
    decoded = weight_table.decode(json.dumps(document).encode())
    if isinstance(decoded, Refused):
        assert decoded.reason in ("type", "range", "not_json", "missing")
    else:
        assert decoded.check == document["check"]
