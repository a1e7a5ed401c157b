"""Inputs from a seeded generator. Pure: the generator comes in."""

from collections.abc import Sequence
from random import Random

from steelyard_loadtest.fuzz import awkward, edits
from steelyard_loadtest.fuzz.edits import ByteEdit, TreeEdit
from steelyard_loadtest.fuzz.model import Target

FAR = 2**31
"""Larger than any input has places, so that all of them are equally likely."""


def an_input(random: Random, target: Target) -> bytes:
    """Return a seed of the target after a few edits; now and then bytes of no seed at all."""
    if random.random() < 0.03:
        return random.randbytes(random.randrange(200))
    return changed(random, random.choice(target.seeds), target.form)


def changed(random: Random, seed: bytes, form: str) -> bytes:
    """Return a seed after one to four edits; of a JSON text mostly such as leave it one."""
    count = random.choice((1, 1, 1, 2, 2, 3, 4))
    if form == "json" and random.random() < 0.8:
        more = [byte_edit(random)] if random.random() < 0.1 else []
        return edits.edited(seed, [tree_edit(random) for _ in range(count)], more)
    return edits.edited(seed, (), [byte_edit(random) for _ in range(count)])


def tree_edit(random: Random) -> TreeEdit:
    """Return an edit of a tree."""
    return TreeEdit(
        kind=random.choices(edits.TREE_KINDS, (8, 2, 1, 1, 1, 1, 2))[0],
        at=random.randrange(FAR),
        value=_value(random),
        key=random.choice(awkward.KEYS),
        count=random.choice((1, 2, 3, 10, 100, 1200)),
    )


def byte_edit(random: Random) -> ByteEdit:
    """Return an edit of bytes."""
    return ByteEdit(
        kind=random.choices(edits.BYTE_KINDS, (4, 2, 4, 1, 1))[0],
        at=random.randrange(FAR),
        piece=random.choice(awkward.PIECES)
        if random.random() < 0.7
        else random.randbytes(random.randrange(1, 9)),
        count=random.choice((1, 1, 2, 4, 16, 200)),
    )


def _value(random: Random) -> str:
    kinds: Sequence[Sequence[str]] = (awkward.NUMBERS, awkward.STRINGS, awkward.SHAPES)
    chosen = random.choices((*kinds, ()), (5, 5, 2, 3))[0]
    if chosen:
        return random.choice(chosen)
    return str(random.choice((random.randrange(-2, 400), random.uniform(-1, 2), random.getrandbits(60))))
