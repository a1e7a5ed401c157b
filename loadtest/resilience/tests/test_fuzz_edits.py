"""Edits of inputs: any edit fits any input."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_resilience.fuzz import edits

SEED = b'{"v":1,"peers":[{"id":"a"},{"id":"b"}]}'

# Nodes count from the root: 0 the object, 1 v, 2 peers, 3 the first peer, 4 its id, 5 and 6 the other's.
EDITS: list[tuple[str, int, dict[str, Any], bytes]] = [
    ("replace", 1, {"value": "1e2"}, b'{"v":1e2,"peers":[{"id":"a"},{"id":"b"}]}'),
    ("remove", 3, {}, b'{"v":1,"peers":[{"id":"b"}]}'),
    ("remove", 1, {}, b'{"peers":[{"id":"a"},{"id":"b"}]}'),
    ("rename", 4, {"key": '"x"'}, b'{"v":1,"peers":[{"x":"a"},{"id":"b"}]}'),
    ("repeat", 1, {"value": "2"}, b'{"v":1,"v":2,"peers":[{"id":"a"},{"id":"b"}]}'),
    ("nest", 4, {"count": 2}, b'{"v":1,"peers":[{"id":[["a"]]},{"id":"b"}]}'),
    ("lengthen", 5, {"count": 3}, b'{"v":1,"peers":[{"id":"a"},{"id":"b"},{"id":"b"},{"id":"b"}]}'),
    ("move", 1 + 7 * 4, {}, b'{"v":"a","peers":[{"id":"a"},{"id":"b"}]}'),
    ("replace", 0, {"value": "NaN"}, b"NaN"),
]


def _edited(kind: str, at: int, **more: Any) -> bytes:
    tree = edits.parsed(SEED)
    assert tree is not None
    edits.tree_edited(tree, kind, at, **more)
    return edits.written(tree).encode()


@pytest.mark.parametrize(("kind", "at", "more", "expected"), EDITS)
def test_an_edit_of_the_tree(kind: str, at: int, more: dict[str, Any], expected: bytes) -> None:
    assert _edited(kind, at, **more) == expected


def test_a_place_is_taken_modulo_what_there_is() -> None:
    assert _edited("remove", 1) == _edited("remove", 1 + 7 * 1000)


@pytest.mark.parametrize(
    ("kind", "at", "more", "expected"),
    [
        ("insert", 2, {"piece": b"xy"}, b"abxycd"),
        ("cut", 1, {"count": 2}, b"ad"),
        ("double", 1, {"count": 2}, b"abcbcd"),
        ("truncate", 3, {}, b"abc"),
        ("flip", 0, {"count": 1}, b"cbcd"),
        ("flip", 4, {"count": 1}, b"abcd"),
    ],
)
def test_an_edit_of_the_bytes(kind: str, at: int, more: dict[str, Any], expected: bytes) -> None:
    assert edits.bytes_edited(b"abcd", kind, at, **more) == expected


@given(st.integers(0, 2**64), st.sampled_from([b"x" * 4096, b'["%s"]' % (b"9" * 6000)]))
def test_no_input_is_longer_than_the_longest(seed: int, text: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edits, "LONGEST", 4096)
        assert len(edits.changed(Random(seed), text)) <= 4096


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_a_tree_is_written_as_it_was_read(value: object) -> None:
    tree = edits.parsed(json.dumps(value).encode())
    assert tree is not None
    assert json.loads(edits.written(tree)) == value


@given(st.integers(0, 2**64), st.sampled_from([SEED, b"text"]))
def test_a_seed_gives_the_same_inputs_again(seed: int, text: bytes) -> None:
    assert edits.an_input(Random(seed), [text]) == edits.an_input(Random(seed), [text])
