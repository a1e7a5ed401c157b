"""The wire formats' Python ends, on the example files that the Lua ends load too."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_agent.wire import Refused
from steelyard_controller.declared import upstream
from steelyard_controller.pipeline import traffic, weight_table

CONTRACT = Path(__file__).parents[2] / "docs" / "contract"
DECODERS = {"traffic.json": traffic.decode, "weights.json": weight_table.decode}


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "weights.json",
            '{"v":1,"upstream":"a","law":"a","picker":"a","term":1,"generation":1,"issued_at_ms":1,"peers":[],'
            '"check":{"path":%s}}',
        ),
        ("traffic.json", '{"v":1,"upstream":"a","lb":"a","boot":"a","seq":%s,"interval_s":1,"peers":{}}'),
    ],
)
def test_refuses_what_is_nested_as_deep_as_can_just_be_parsed(name: str, text: str) -> None:
    # Where that is depends on how deep in its own calls the parser is called.
    for depth in range(800, 1000):
        nested = "[" * depth + "]" * depth
        assert isinstance(DECODERS[name]((text % nested).encode()), Refused)


@pytest.mark.parametrize("name", DECODERS)
def test_refuses_two_megabytes(name: str) -> None:
    decoded = DECODERS[name](b"0" * 2_000_000)
    assert isinstance(decoded, Refused)
    assert decoded.reason == "too_large"


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


def test_a_table_without_check_and_hash_key_is_written_as_before() -> None:
    assert list(json.loads(weight_table.encode(_table()))) == [
        "v", "upstream", "term", "generation", "issued_at_ms", "law", "picker", "peers",
    ]  # fmt: skip


@given(
    check=st.builds(
        upstream.Check,
        path=st.from_regex(r"/[!-~]{0,20}", fullmatch=True) | st.just("/" + "~" * 1000),
        statuses=st.none() | st.lists(st.integers(100, 599), min_size=1, max_size=5),
        interval_s=st.floats(0.1, 3600),
        timeout_s=st.floats(0.05, 60),
        rise=st.integers(1, 100),
        fall=st.integers(1, 100),
        host=st.none() | st.sampled_from(["example.org:8080", "[::1]", "x" * 253]),
    ),
    hash_key=st.none()
    | st.sampled_from(["address", "uri", "header:X-User", "cookie:s", "argument:" + "n" * 64]),
)
def test_every_check_and_hash_key_that_may_be_declared_survives_the_wire(
    check: upstream.Check, hash_key: str | None
) -> None:
    declared = upstream.Upstream(check=check, hash_key=hash_key)
    table = _table(check=check.model_dump(), hash_key=declared.hash_key)
    value = weight_table.encode(table)
    assert weight_table.decode(value) == table
    assert list(json.loads(value))[-1] == "peers"  # nginx reads it in slices only so


@pytest.mark.parametrize("rung", traffic.RUNGS)
def test_a_report_s_rung_and_order_are_read(rung: str) -> None:
    document = json.loads((CONTRACT / "traffic.json").read_text())["accepted"][0]["value"]
    before = traffic.decode(json.dumps(document).encode())
    now = traffic.decode(json.dumps({**document, "rung": rung, "order": [3, 118]}).encode())
    assert isinstance(before, traffic.TrafficReport)
    assert isinstance(now, traffic.TrafficReport)
    assert (before.rung, before.order) == (None, None)
    assert (now.rung, now.order) == (rung, (3, 118))
    assert now.peers == before.peers


def test_a_table_that_memcached_cannot_hold_is_a_clear_error() -> None:
    peer = weight_table.TablePeer(id="x" * 64, address="10.0.0.1:80", weight=1, baseline=1, state="up")
    table = weight_table.WeightTable(
        upstream="web",
        term=1,
        generation=1,
        issued_at_ms=0,
        law="static",
        picker="vnswrr",
        peers=(peer,) * 10_000,
    )
    with pytest.raises(weight_table.TableTooLarge, match=r"web has 10000 peers .* split the upstream"):
        weight_table.encode(table)


def test_ten_thousand_peers_with_ordinary_names_fit_memcached() -> None:
    peers = tuple(
        weight_table.TablePeer(
            id=f"server-{n}", address=f"10.0.{n // 250}.{n % 250}:80", weight=20, baseline=20, state="up"
        )
        for n in range(10_000)
    )
    table = weight_table.WeightTable(
        upstream="web", term=1, generation=1, issued_at_ms=0, law="static", picker="vnswrr", peers=peers
    )
    assert len(weight_table.encode(table)) < 1024 * 1024


@pytest.mark.parametrize("name", DECODERS)
@given(
    value=st.binary(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["v", "upstream", "peers", "id", "weight", "term", "check", "order", "x"]),
                inner,
                max_size=6,
            )
        ),
    ).map(lambda document: json.dumps(document).encode())
)
def test_never_raises(name: str, value: bytes) -> None:
    DECODERS[name](value)


@given(
    member=st.sampled_from(["path", "statuses", "interval_s", "timeout_s", "rise", "fall", "host"]),
    value=st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=5)
    | st.lists(st.integers()),
)
def test_a_check_s_member_of_any_kind_is_taken_or_refused(member: str, value: object) -> None:
    document = weight_table.to_document(_table(check=upstream.Check(path="/").model_dump()))
    document["check"][member] = value
    decoded = weight_table.decode(json.dumps(document).encode())
    if isinstance(decoded, Refused):
        assert decoded.reason in ("type", "range", "not_json")
    else:
        assert decoded.check == document["check"]
