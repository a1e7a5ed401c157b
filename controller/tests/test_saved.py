import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.state.saved import Newer, Saved, decode, encode


def test_a_state_survives_the_store() -> None:
    saved = Saved(term=3, generation=118, memories={"static": {"law": "static", "x": [1.5, None]}})
    assert decode(encode(saved)) == saved


def test_what_clocks_told_survives_the_store_and_is_left_out_where_there_is_none() -> None:
    told_ms = {"samples": {"server-1": 1_790_000_000_000}, "reports": {"edge-1": 5}}
    saved = Saved(term=3, generation=118, memories={}, told_ms=told_ms)
    assert decode(encode(saved)) == saved
    assert b"told_ms" not in encode(Saved(term=3, generation=118, memories={}))


@pytest.mark.parametrize(
    "found", ["7", "[]", '{"samples":7}', '{"samples":{"a":"x","b":-1,"c":null,"d":1.5}}']
)
def test_what_is_damaged_of_it_costs_no_law_its_memory(found: str) -> None:
    value = '{"v":1,"term":3,"generation":118,"memories":{"static":{}},"told_ms":' + found + "}"
    saved = decode(value.encode())
    assert saved is not None
    assert saved.memories == {"static": {}}
    assert not any(saved.told_ms.values())


@pytest.mark.parametrize(
    "value", [b"", b"garbage", b"[]", b"{}", b'{"v":1}', b'{"v":1,"term":-1,"generation":2}', b"[" * 50_000]
)
def test_a_damaged_state_is_no_state(value: bytes) -> None:
    assert decode(value) is None


def test_a_newer_programs_state_is_refused_clearly() -> None:
    with pytest.raises(Newer, match="run the newer controller"):
        decode(b'{"v":2,"whatever":1}')


@given(st.binary(max_size=200))
def test_never_raises_on_garbage(value: bytes) -> None:
    decode(value)
