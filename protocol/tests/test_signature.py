"""Signed values, on the common examples of all parts, and on an intruder's values."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_protocol import sample_reader, signature
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.wire import Refused

EXAMPLES = json.loads((Path(__file__).parents[2] / "docs/contract/signed.json").read_text(encoding="utf-8"))
KEY: bytes = EXAMPLES["key"].encode()

KEYS = st.binary(min_size=signature.SHORTEST_KEY_BYTES, max_size=80)


def cases(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", EXAMPLES[kind], ids=lambda example: str(example["name"]))


@cases("accepted")
def test_an_accepted_example_opens_to_its_text_and_is_what_we_write(example: dict[str, str]) -> None:
    text, value = example["text"].encode(), example["value"].encode()
    assert signature.open_value(KEY, value) == text
    assert signature.sign(KEY, text) == value


@cases("refused")
def test_a_refused_example_is_refused_for_its_reason(example: dict[str, str]) -> None:
    refused = signature.open_value(KEY, example["value"].encode())
    assert isinstance(refused, Refused)
    assert refused.reason == example["reason"], refused


@cases("accepted_without_key")
def test_without_a_key_an_unsigned_value_is_its_text(example: dict[str, str]) -> None:
    assert signature.open_value(None, example["value"].encode()) == example["text"].encode()


@cases("refused_without_key")
def test_without_a_key_a_signed_value_is_refused_with_the_remedy(example: dict[str, str]) -> None:
    refused = signature.open_value(None, example["value"].encode())
    assert isinstance(refused, Refused)
    assert (refused.reason, "set it" in refused.detail) == (example["reason"], True)


def test_a_known_answer() -> None:
    # RFC 4231, test case 3.
    digest = signature.digest(b"\xaa" * 20, b"\xdd" * 50)
    assert digest == "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"


@given(KEYS, st.binary(max_size=300))
def test_what_was_signed_opens(key: bytes, text: bytes) -> None:
    assert signature.open_value(key, signature.sign(key, text)) == text


@given(KEYS, st.binary(max_size=100), st.data())
def test_any_one_byte_changed_is_refused(key: bytes, text: bytes, data: st.DataObject) -> None:
    value = bytearray(signature.sign(key, text))
    value[data.draw(st.integers(0, len(value) - 1), "where")] ^= data.draw(st.integers(1, 255), "bits")
    assert isinstance(signature.open_value(key, bytes(value)), Refused)


@given(KEYS, st.binary(max_size=100), st.data())
def test_any_value_cut_short_is_refused(key: bytes, text: bytes, data: st.DataObject) -> None:
    value = signature.sign(key, text)
    assert isinstance(signature.open_value(key, value[: data.draw(st.integers(0, len(value) - 1))]), Refused)


@given(st.lists(KEYS, min_size=2, max_size=2, unique_by=lambda key: key.ljust(64, b"\0")), st.binary())
def test_another_key_does_not_open(keys: list[bytes], text: bytes) -> None:
    # unique_by: HMAC pads a key with zeros to a block, so keys with more zeros are one key.
    refused = signature.open_value(keys[0], signature.sign(keys[1], text))
    assert isinstance(refused, Refused)
    assert refused.reason == "signature"


@given(st.none() | KEYS, st.binary(max_size=300))
def test_arbitrary_bytes_never_raise(key: bytes | None, value: bytes) -> None:
    opened = signature.open_value(key, value)
    assert isinstance(opened, Refused) or (key is None and opened == value)


def test_a_signed_message_is_decoded_and_its_own_refusal_is_told() -> None:
    good = json.dumps(json.loads(EXAMPLES["accepted"][1]["text"])).encode()
    assert isinstance(signature.read(KEY, signature.sign(KEY, good), sample_reader.decode), SampleRecord)
    refused = signature.read(KEY, signature.sign(KEY, b"garbage"), sample_reader.decode)
    assert isinstance(refused, Refused)
    assert refused.reason == "not_json"


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        (b"k" * 16, b"k" * 16),
        (b"k" * 32 + b"\n", b"k" * 32),
        (b"k" * 32 + b"\r\n", b"k" * 32),
        (b"k" * 32 + b"\n\n", b"k" * 32 + b"\n"),
        (b" " + b"k" * 32 + b" \n", b" " + b"k" * 32 + b" "),
        (bytes(range(1, 33)), bytes(range(1, 33))),
    ],
)
def test_a_key_is_the_secret_without_the_newline_at_its_end(secret: bytes, key: bytes) -> None:
    assert signature.key_of(secret) == key


@pytest.mark.parametrize("secret", [b"", b"\n", b"secretsecret123", b"secretsecret123\n"])
def test_a_short_key_is_an_error_that_does_not_show_it(secret: bytes) -> None:
    with pytest.raises(ValueError, match="a key has at least 16 bytes, and this one has") as raised:
        signature.key_of(secret)
    assert "secret" not in str(raised.value)
