import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steelyard_controller import laws

from .snapshots import snapshot, steps

EVERY_LAW = pytest.mark.parametrize("name", laws.NAMES)


@cache
def warm(name: str) -> laws.Memory:
    """Return a memory with something in every column."""
    last = snapshot(cpu=(0.9, None, 0.5), completed=(80, 100, None), failed=(20, 0, 0), report_age_ticks=1)
    memory, _ = steps(laws.create(name), [*([snapshot(cpu=(0.9, 0.4, 0.5))] * 20), last])
    return memory


@cache
def text(name: str) -> str:
    return json.dumps(laws.encode_memory(name, warm(name)), allow_nan=False)


def document(name: str) -> Any:
    """Return the memory as it is saved, for the test alone to change."""
    return json.loads(text(name))


@EVERY_LAW
def test_decode_of_encode_is_the_memory(name: str) -> None:
    restored = laws.decode_memory(name, document(name))
    assert restored is not None
    # Compared in the encoded form: a NaN does not equal itself.
    assert laws.encode_memory(name, restored) == document(name)
    assert restored.ids == warm(name).ids


@EVERY_LAW
def test_a_restored_memory_goes_on_as_if_nothing_had_been(name: str) -> None:
    law, memory = laws.create(name), warm(name)
    restored = laws.decode_memory(law, document(name))
    assert restored is not None
    after = snapshot(cpu=(0.7, 0.5, 0.5), completed=(90, 100, 110))
    _, one = steps(law, [after] * 3, memory)
    _, other = steps(law, [after] * 3, restored)
    assert one.weights.tolist() == other.weights.tolist()


@EVERY_LAW
def test_the_empty_memory_survives(name: str) -> None:
    law = laws.create(name)
    assert laws.decode_memory(law, laws.encode_memory(name, law.start())) is not None


def test_a_memory_names_its_law_and_version() -> None:
    encoded = laws.encode_memory("steelyard", warm("steelyard"))
    assert (encoded["law"], encoded["version"]) == ("steelyard", 5)


def test_encoding_another_laws_memory_is_the_callers_bug() -> None:
    with pytest.raises(ValueError, match="this is the memory of law paper, not of steelyard"):
        laws.encode_memory("steelyard", warm("paper"))


def test_another_laws_memory_is_none() -> None:
    assert laws.decode_memory("steelyard", document("paper")) is None
    assert laws.decode_memory("nonesuch", document("paper")) is None


@EVERY_LAW
@pytest.mark.parametrize("version", [0, 2, 3, True, "1", None])
def test_another_version_is_none(name: str, version: object) -> None:
    assert laws.decode_memory(name, {**document(name), "version": version}) is None


@pytest.mark.parametrize(
    "damage",
    [
        {"ids": ["a", "b"]},
        {"ids": ["a", "b", "b"]},
        {"ids": ["a", "b", 3]},
        {"ids": "abc"},
        {"columns": {}},
        {"columns": []},
        {"scalars": {}},
        {"more": 1},
    ],
)
def test_a_damaged_document_is_none(damage: dict[str, object]) -> None:
    assert laws.decode_memory("steelyard", {**document("steelyard"), **damage}) is None


@pytest.mark.parametrize("value", [None, "1", True, -1, 1e300, float("nan"), float("inf"), 10**400, [], {}])
@pytest.mark.parametrize("column", ["requests", "busy", "recent", "load_ring"])
def test_a_damaged_figure_is_none(column: str, value: object) -> None:
    damaged = document("steelyard")
    row = damaged["columns"][column]
    if isinstance(row[0], list):
        row = row[0]
    row[0] = value
    restored = laws.decode_memory("steelyard", damaged)
    # In the rings, null is "nothing yet", a valid value.
    assert restored is None or (column == "load_ring" and value is None)


@pytest.mark.parametrize("whole", [None, 1, "x", [], {}, {"law": "steelyard", "version": 5}])
def test_anything_else_is_none(whole: object) -> None:
    assert laws.decode_memory("steelyard", whole) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


def test_a_saved_cost_of_0_counts_as_unknown() -> None:
    damaged = document("steelyard")
    damaged["columns"]["cost"] = [None, None, 0]
    _, decision = steps(laws.create("steelyard"), [snapshot()], laws.decode_memory("steelyard", damaged))
    assert decision.weights.min() > 0


@settings(max_examples=200)
@given(st.sampled_from(laws.NAMES), st.data())
def test_decoding_is_total(name: str, data: st.DataObject) -> None:
    damaged = document(name)
    place = data.draw(st.sampled_from(["whole", "field", "column", "scalar"]))
    junk = data.draw(JSON)
    if place == "whole":
        damaged = junk
    elif place == "field":
        damaged[data.draw(st.sampled_from(sorted(damaged)))] = junk
    else:
        holder = damaged[f"{place}s"]
        if holder:
            holder[data.draw(st.sampled_from(sorted(holder)))] = junk
    restored = laws.decode_memory(name, damaged)
    if restored is not None:
        _, decision = steps(laws.create(name), [snapshot()], restored)
        assert decision.weights.min() > 0
