"""The wire format of samples, on the examples that every part shares."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_protocol import sample_reader, sample_record
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.wire import Refused

EXAMPLES = json.loads((Path(__file__).parents[2] / "docs/contract/sample.json").read_text(encoding="utf-8"))
KNOWN_KEYS = {
    "v", "upstream", "peer", "boot", "seq", "taken_at_ms", "interval_s",
    "utilization", "capacity", "scope", "leaving",
}  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES["accepted"], ids=lambda example: str(example["about"]))
def test_an_accepted_example_survives_the_round_trip(example: dict[str, Any]) -> None:
    decoded = sample_reader.decode(json.dumps(example["value"]).encode())
    assert isinstance(decoded, SampleRecord)
    known = {key: value for key, value in example["value"].items() if key in KNOWN_KEYS}
    assert json.loads(sample_record.encode(decoded)) == known
    assert sample_reader.decode(sample_record.encode(decoded)) == decoded


@pytest.mark.parametrize("example", EXAMPLES["refused"], ids=lambda example: str(example["about"]))
def test_a_refused_example_is_refused_for_its_reason(example: dict[str, Any]) -> None:
    refused = sample_reader.decode(example["text"].encode())
    assert isinstance(refused, Refused)
    assert refused.reason == example["reason"], refused


def test_a_megabyte_of_zeros_is_too_large() -> None:
    refused = sample_reader.decode(bytes(1024 * 1024))
    assert isinstance(refused, Refused)
    assert refused.reason == "too_large"


@given(st.binary(max_size=512))
def test_arbitrary_bytes_never_raise(value: bytes) -> None:
    assert isinstance(sample_reader.decode(value), Refused)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
GOOD = EXAMPLES["accepted"][0]["value"]


@given(st.sampled_from(sorted(GOOD)), JSON)
def test_any_json_in_any_field_never_raises(key: str, value: object) -> None:
    assert isinstance(sample_reader.decode(json.dumps({**GOOD, key: value}).encode()), SampleRecord | Refused)


@given(st.sampled_from(["utilization", "capacity"]), st.integers(0, 3), JSON)
def test_any_json_in_any_column_never_raises(group: str, column: int, value: object) -> None:
    columns = {**GOOD[group], sorted(GOOD[group])[column]: value}
    assert isinstance(
        sample_reader.decode(json.dumps({**GOOD, group: columns}).encode()), SampleRecord | Refused
    )
