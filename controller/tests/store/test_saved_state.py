import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.store.saved_state import NewerVersion, SavedState, decode, encode


def test_a_state_survives_the_store() -> None:
    saved = SavedState(term=3, generation=118, memories={"static": {"law": "static", "x": [1.5, None]}})
    assert decode(encode(saved)) == saved


def test_what_clocks_told_survives_the_store_and_is_left_out_where_there_is_none() -> None:
    clocks_ms = {"samples": {"server-1": 1_790_000_000_000}, "reports": {"edge-1": 5}}
    saved = SavedState(term=3, generation=118, memories={}, sender_clocks_ms=clocks_ms)
    assert decode(encode(saved)) == saved
    assert b"told_ms" not in encode(SavedState(term=3, generation=118, memories={}))


def test_the_addresses_of_names_survive_the_store_and_what_is_no_address_is_left_out() -> None:
    saved = SavedState(
        term=3, generation=118, memories={}, resolved={"alpha.test": "10.0.0.1", "b": "fd00::1"}
    )
    assert decode(encode(saved)) == saved
    damaged = encode(saved).replace(b"10.0.0.1", b"10.0.0").replace(b"fd00::1", b"fe80::1%eth0")
    assert decode(damaged) == SavedState(term=3, generation=118, memories={})


@pytest.mark.parametrize(
    "told", ["7", "[]", '{"samples":7}', '{"samples":{"a":"x","b":-1,"c":null,"d":1.5}}']
)
def test_what_is_damaged_of_it_costs_no_law_its_memory(told: str) -> None:
    value = '{"v":1,"term":3,"generation":118,"memories":{"static":{}},"told_ms":' + told + "}"
    saved = decode(value.encode())
    assert saved is not None
    assert saved.memories == {"static": {}}
    assert not any(saved.sender_clocks_ms.values())


@pytest.mark.parametrize(
    "value", [b"", b"garbage", b"[]", b"{}", b'{"v":1}', b'{"v":1,"term":-1,"generation":2}', b"[" * 50_000]
)
def test_a_damaged_state_is_no_state(value: bytes) -> None:
    assert decode(value) is None


def test_a_newer_programs_state_is_refused_clearly() -> None:
    with pytest.raises(NewerVersion, match="run the newer controller"):
        decode(b'{"v":2,"whatever":1}')


@given(st.binary(max_size=200))
def test_never_raises_on_garbage(value: bytes) -> None:
    decode(value)
