import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.state.saved import Newer, Saved, decode, encode


def test_a_state_survives_the_store() -> None:
    saved = Saved(term=3, generation=118, memories={"static": {"law": "static", "x": [1.5, None]}})
    assert decode(encode(saved)) == saved


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
