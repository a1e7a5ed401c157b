"""The wire format of samples, on the common examples of all parts."""

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
GOOD = EXAMPLES["accepted"][0]["value"]
KNOWN_KEYS = {
    "v", "upstream", "peer", "boot", "seq", "taken_at_ms", "interval_s",
    "utilization", "capacity", "scope", "leaving", "further", "up_s",
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


def test_a_record_of_the_four_alone_stays_version_1_so_that_an_earlier_controller_reads_it() -> None:
    four = sample_reader.decode(json.dumps(GOOD).encode())
    assert isinstance(four, SampleRecord)
    assert four.further == ()
    assert json.loads(sample_record.encode(four)) == {**GOOD, "v": 1}
    five = four._replace(further=(("workers", None),))
    assert json.loads(sample_record.encode(five)) == {**GOOD, "further": {"workers": None}}


def test_further_indicators_keep_the_order_in_which_they_were_sent() -> None:
    sent = (("workers", 0.5), ("queue", None), ("a", 16.0))
    read = sample_reader.decode(json.dumps({**GOOD, "further": dict(sent)}).encode())
    assert isinstance(read, SampleRecord)
    assert read.further == sent


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


@given(st.sampled_from(sorted(GOOD)), JSON)
def test_any_json_in_any_field_never_raises(key: str, value: object) -> None:
    assert isinstance(sample_reader.decode(json.dumps({**GOOD, key: value}).encode()), SampleRecord | Refused)


@given(st.dictionaries(st.text(max_size=8) | st.just("workers"), JSON, max_size=3))
def test_any_json_as_further_indicators_never_raises(further: dict[str, object]) -> None:
    value = json.dumps({**GOOD, "further": further}).encode()
    assert isinstance(sample_reader.decode(value), SampleRecord | Refused)


@given(st.sampled_from(["utilization", "capacity"]), st.integers(0, 3), JSON)
def test_any_json_in_any_column_never_raises(group: str, column: int, value: object) -> None:
    columns = {**GOOD[group], sorted(GOOD[group])[column]: value}
    assert isinstance(
        sample_reader.decode(json.dumps({**GOOD, group: columns}).encode()), SampleRecord | Refused
    )
