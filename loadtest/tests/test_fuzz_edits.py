"""Edits of inputs: any edit fits any input, and says what it does."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.fuzz import draw, edits
from steelyard_loadtest.fuzz.edits import ByteEdit, TreeEdit
from steelyard_loadtest.fuzz.model import ACCEPTED, Target

SEED = b'{"v":1,"peers":[{"id":"a"},{"id":"b"}]}'

# Nodes count from the root: 0 the object, 1 v, 2 peers, 3 the first peer, 4 its id, 5 and 6 the other's.
EDITS = [
    (TreeEdit(kind="replace", at=1, value="1e2"), b'{"v":1e2,"peers":[{"id":"a"},{"id":"b"}]}'),
    (TreeEdit(kind="remove", at=3), b'{"v":1,"peers":[{"id":"b"}]}'),
    (TreeEdit(kind="remove", at=1), b'{"peers":[{"id":"a"},{"id":"b"}]}'),
    (TreeEdit(kind="rename", at=4, key='"x"'), b'{"v":1,"peers":[{"x":"a"},{"id":"b"}]}'),
    (TreeEdit(kind="repeat", at=1, value="2"), b'{"v":1,"v":2,"peers":[{"id":"a"},{"id":"b"}]}'),
    (TreeEdit(kind="nest", at=4, count=2), b'{"v":1,"peers":[{"id":[["a"]]},{"id":"b"}]}'),
    (
        TreeEdit(kind="lengthen", at=5, count=3),
        b'{"v":1,"peers":[{"id":"a"},{"id":"b"},{"id":"b"},{"id":"b"}]}',
    ),
    (TreeEdit(kind="move", at=1 + 7 * 4), b'{"v":"a","peers":[{"id":"a"},{"id":"b"}]}'),
    (TreeEdit(kind="replace", at=0, value="NaN"), b"NaN"),
]


@pytest.mark.parametrize(("edit", "expected"), EDITS, ids=lambda each: getattr(each, "kind", ""))
def test_an_edit_of_the_tree(edit: TreeEdit, expected: bytes) -> None:
    assert edits.edited(SEED, [edit], []) == expected


def test_a_place_is_taken_modulo_what_there_is() -> None:
    near, far = TreeEdit(kind="remove", at=1), TreeEdit(kind="remove", at=1 + 7 * 1000)
    assert edits.edited(SEED, [near], []) == edits.edited(SEED, [far], [])


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (ByteEdit(kind="insert", at=2, piece=b"xy"), b"abxycd"),
        (ByteEdit(kind="cut", at=1, count=2), b"ad"),
        (ByteEdit(kind="double", at=1, count=2), b"abcbcd"),
        (ByteEdit(kind="truncate", at=3), b"abc"),
        (ByteEdit(kind="flip", at=0, count=1), b"cbcd"),
        (ByteEdit(kind="flip", at=4, count=1), b"abcd"),
    ],
)
def test_an_edit_of_the_bytes(edit: ByteEdit, expected: bytes) -> None:
    assert edits.edited(b"abcd", [], [edit]) == expected


def test_no_input_is_longer_than_the_longest() -> None:
    piece = ByteEdit(kind="insert", at=0, piece=b"x" * edits.LONGEST)
    assert (
        len(edits.edited(SEED, [TreeEdit(kind="replace", at=1, value="9" * 10**6)], [piece])) == edits.LONGEST
    )


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_tree_is_written_as_it_was_read(value: object) -> None:
    tree = edits.parsed(json.dumps(value).encode())
    assert tree is not None
    assert json.loads(edits.written(tree)) == value


@given(st.integers(0, 2**64), st.sampled_from(["json", "text"]))
def test_a_seed_gives_the_same_inputs_again(seed: int, form: str) -> None:
    target = Target(
        name="t", about="", form="json" if form == "json" else "text", seeds=(SEED,), judge=lambda _: ACCEPTED
    )
    assert draw.an_input(Random(seed), target) == draw.an_input(Random(seed), target)
