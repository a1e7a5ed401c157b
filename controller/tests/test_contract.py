"""The wire formats' Python ends, on the example files that the Lua ends load too."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_agent.wire import Refused
from steelyard_controller import traffic, weight_table

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
                st.sampled_from(["v", "upstream", "peers", "id", "weight", "term", "x"]), inner, max_size=6
            )
        ),
    ).map(lambda document: json.dumps(document).encode())
)
def test_never_raises(name: str, value: bytes) -> None:
    DECODERS[name](value)
