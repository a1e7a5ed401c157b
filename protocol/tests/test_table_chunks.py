"""Tables larger than a Memcached item, on the example file of both ends."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_protocol import table_chunks, weight_table, wire
from steelyard_protocol.table_chunks import ITEM_BYTES, Manifest
from steelyard_protocol.weight_table import TablePeer, WeightTable
from steelyard_protocol.wire import Refused

EXAMPLES = json.loads((Path(__file__).parents[2] / "docs" / "contract" / "chunks.json").read_text())


def table(count: int, weight: int = 20) -> WeightTable:
    return weight_table.with_digest(
        WeightTable(
            upstream="web", term=3, generation=8, issued_at_ms=1, law="static", picker="vnswrr",
            peers=tuple(
                TablePeer(id=f"server-{n:05}", address="10.0.0.1:80", weight=weight, baseline=20, state="up")
                for n in range(count)
            ),
        )
    )  # fmt: skip


@pytest.mark.parametrize("case", EXAMPLES["accepted"], ids=lambda case: case["about"])
def test_the_examples_are_what_is_written_and_join_to_the_table(case: dict[str, Any]) -> None:
    made = weight_table.decode(case["table"].encode())
    assert isinstance(made, WeightTable)
    texts = table_chunks.split(made, case["chunk_bytes"])
    names = [table_chunks.name_of(text) for text in texts]
    assert [text.decode() for text in texts] == case["chunks"]
    assert names == case["names"]
    assert table_chunks.encode_manifest(made, names).decode() == case["manifest"]
    manifest = table_chunks.decode(case["manifest"].encode())
    assert isinstance(manifest, Manifest)
    assert manifest.chunks == tuple(names)
    assert table_chunks.join(manifest, texts) == made


@pytest.mark.parametrize("case", EXAMPLES["accepted"], ids=lambda case: case["about"])
def test_who_does_not_know_chunks_refuses_the_manifest(case: dict[str, Any]) -> None:
    refused = weight_table.decode(case["manifest"].encode())
    assert isinstance(refused, Refused)
    assert refused.reason == "missing"


@pytest.mark.parametrize("case", EXAMPLES["refused"], ids=lambda case: case["about"])
def test_refuses_the_examples_and_says_why(case: dict[str, Any]) -> None:
    head = table_chunks.decode(case["manifest"].encode())
    whole = (
        table_chunks.join(head, [text.encode() for text in case["chunks"]])
        if isinstance(head, Manifest)
        else head
    )
    assert isinstance(whole, Refused)
    assert whole.reason == case["reason"], whole


def test_a_whole_table_is_decoded_as_before() -> None:
    made = table(3)
    assert table_chunks.decode(weight_table.encode(made)) == made


def test_chunks_stay_while_weights_move() -> None:
    assert table_chunks.split(table(50)) == table_chunks.split(table(50, weight=7))


def test_every_chunk_and_the_manifest_fit_an_item() -> None:
    made = table(30_000, weight=weight_table.MAX_WEIGHT)
    texts = table_chunks.split(made)
    names = [table_chunks.name_of(text) for text in texts]
    assert len(texts) == 3
    assert max(map(len, [*texts, table_chunks.encode_manifest(made, names)])) < ITEM_BYTES


def test_no_table_that_is_read_has_more_chunks_than_are_read() -> None:
    assert wire.MAX_TABLE_BYTES / table_chunks.CHUNK_BYTES < table_chunks.MAX_CHUNKS / 2


@given(
    st.binary(max_size=200) | st.from_regex(r"\{\"v\":1,\"chunks\":.{0,80}\}", fullmatch=True).map(str.encode)
)
def test_whatever_comes_is_read_or_refused(value: bytes) -> None:
    head = table_chunks.decode(value)
    assert isinstance(head, WeightTable | Manifest | Refused)
    manifest = table_chunks.decode(EXAMPLES["accepted"][0]["manifest"].encode())
    assert isinstance(manifest, Manifest)
    assert isinstance(table_chunks.join(manifest, [value]), Refused)
