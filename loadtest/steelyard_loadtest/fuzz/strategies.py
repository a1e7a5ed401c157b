"""The same inputs as hypothesis draws them, so that it can shrink what it finds. Pure."""

from hypothesis import strategies as st

from steelyard_loadtest.fuzz import awkward, edits
from steelyard_loadtest.fuzz.draw import FAR
from steelyard_loadtest.fuzz.edits import ByteEdit, TreeEdit
from steelyard_loadtest.fuzz.model import Target

_VALUES = st.one_of(
    st.sampled_from(awkward.VALUES),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
    st.text(max_size=70).map(lambda text: '"' + text.replace("\\", "").replace('"', "") + '"'),
)

_TREE_EDITS = st.builds(
    TreeEdit,
    kind=st.sampled_from(edits.TREE_KINDS),
    at=st.integers(0, FAR),
    value=_VALUES,
    key=st.sampled_from(awkward.KEYS),
    count=st.sampled_from((1, 2, 3, 100, 1200)),
)

_BYTE_EDITS = st.builds(
    ByteEdit,
    kind=st.sampled_from(edits.BYTE_KINDS),
    at=st.integers(0, FAR),
    piece=st.one_of(st.sampled_from(awkward.PIECES), st.binary(max_size=8)),
    count=st.integers(1, 200),
)


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Return the strategy of a target's inputs: seeds with edits, and any bytes at all."""
    seeds = st.sampled_from(target.seeds)
    several = st.lists(_BYTE_EDITS, min_size=1, max_size=3)
    changed = st.builds(edits.edited, seeds, st.just(()), several)
    if target.form == "json":
        trees = st.builds(edits.edited, seeds, st.lists(_TREE_EDITS, min_size=1, max_size=4), st.just(()))
        return st.one_of(trees, trees, trees, changed, st.binary(max_size=100))
    return st.one_of(changed, changed, changed, st.binary(max_size=300))
