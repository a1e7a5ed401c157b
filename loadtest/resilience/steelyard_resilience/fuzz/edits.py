"""Malformed inputs: examples with edits of their bytes, and of JSON as a tree. Pure.

A place is a number modulo the number of places, so any edit fits any input.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from steelyard_resilience.fuzz import edge_values

LONGEST = 64 * 1024
"""Bytes. Longer inputs would only be slower; examples cover the decoders' limits of size."""

# Far more than the places of any input, so that all of them are equally likely.
FAR = 2**31

TREE_EDITS = {"replace": 8, "remove": 2, "rename": 1, "repeat": 1, "nest": 1, "lengthen": 1, "move": 2}
"""The kinds, with their weights in the draw."""

BYTE_EDITS = {"insert": 4, "cut": 2, "flip": 4, "double": 1, "truncate": 1}
"""The kinds, with their weights in the draw."""


@dataclass(frozen=True, slots=True)
class Node:
    """A list or an object: for each of its values, the text before it (`"name":` or nothing), and the value.

    Names may repeat. A value is a node, or a text, JSON or not.
    """

    brackets: str
    rows: "list[tuple[str, Node | str]]"


def an_input(random: Random, seeds: Sequence[bytes]) -> bytes:
    """Return a seed after a few edits, sometimes an unchanged seed or random bytes."""
    kind = random.randrange(20)
    if kind == 0:
        return random.randbytes(random.randrange(300))
    seed = random.choice(seeds)
    return seed if kind <= 2 else changed(random, seed)


def changed(random: Random, seed: bytes) -> bytes:
    """Return a seed after one to four edits, at most LONGEST bytes; most edits of JSON keep it JSON."""
    count = random.choice((1, 1, 1, 2, 2, 3, 4))
    tree = parsed(seed) if seed[:1] in (b"{", b"[") and random.randrange(10) < 8 else None
    if tree is not None:
        for _ in range(count):
            tree_edited(
                tree, random.choices([*TREE_EDITS], [*TREE_EDITS.values()])[0], random.randrange(FAR),
                value=_value(random), key=random.choice(edge_values.KEYS),
                count=random.choice((1, 2, 3, 10, 100, 1200)),
            )  # fmt: skip
        seed = written(tree).encode("utf-8", "surrogatepass")
        count = int(random.randrange(10) == 0)
    for _ in range(count):
        seed = bytes_edited(
            seed[:LONGEST], random.choices([*BYTE_EDITS], [*BYTE_EDITS.values()])[0], random.randrange(FAR),
            piece=_piece(random), count=random.choice((1, 1, 2, 4, 16, 200)),
        )  # fmt: skip
    return seed[:LONGEST]


def parsed(text: bytes) -> Node | None:
    """Return a JSON text's tree as the only row of a node without brackets; None if it is not JSON."""
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: Node("{}", pairs))
        return Node("", [("", _tree(value))])
    except (ValueError, RecursionError):
        return None


def _tree(value: object) -> Node | str:
    match value:
        case Node():
            return Node("{}", [(f"{json.dumps(name)}:", _tree(each)) for name, each in value.rows])
        case list():
            return Node("[]", [("", _tree(each)) for each in value])
    return json.dumps(value)


def written(node: Node | str) -> str:
    """Return a tree as text."""
    if isinstance(node, str):
        return node
    rows = ",".join(name + written(value) for name, value in node.rows)
    return node.brackets[:1] + rows + node.brackets[1:]


def tree_edited(
    tree: Node, kind: str, at: int, *, value: str = "null", key: str = '"v"', count: int = 1
) -> None:
    """Edit the value number `at` of a tree, for example put `value` there. `count`: depth or repetitions."""
    places = _places(tree)
    node, place = places[at % len(places)]
    name, old = node.rows[place]
    if node is tree and kind in ("remove", "rename", "repeat", "lengthen"):
        return
    again: list[tuple[str, Node | str]]
    match kind:
        case "replace":
            again = [(name, value)]
        case "nest":
            again = [(name, "[" * count + written(old) + "]" * count)]
        case "move":
            other, where = places[(at // len(places)) % len(places)]
            again = [(name, written(other.rows[where][1]))]
        case "remove":
            again = []
        case "rename":
            again = [(f"{key}:" if name else "", old)]
        case "repeat":
            again = [(name, old), (name, value)]
        case _:
            copies = range(count if name else count - 1)
            again = [(name, old), *((f'"x{n}":' if name else "", written(old)) for n in copies)]
    node.rows[place : place + 1] = again


def _places(node: Node) -> list[tuple[Node, int]]:
    places = []
    for place, (_, value) in enumerate(node.rows):
        places += [(node, place), *(_places(value) if isinstance(value, Node) else ())]
    return places


def bytes_edited(data: bytes, kind: str, at: int, *, piece: bytes = b"", count: int = 1) -> bytes:
    """Return the bytes after an edit at byte `at`, such as `piece` inserted or `count` bytes cut out."""
    at %= len(data) + 1
    end = min(len(data), at + count)
    match kind:
        case "insert":
            return data[:at] + piece + data[at:]
        case "cut":
            return data[:at] + data[end:]
        case "double":
            return data[:end] + data[at:]
        case "truncate":
            return data[:at]
    return data[:at] + bytes(byte ^ (1 << count % 8) for byte in data[at : at + 1]) + data[at + 1 :]


def _value(random: Random) -> str:
    texts = (edge_values.NUMBERS, edge_values.STRINGS, edge_values.SHAPES, None)
    chosen = random.choices(texts, (5, 5, 2, 3))[0]
    if chosen:
        return random.choice(chosen)
    return str(random.choice((random.randrange(-2, 400), random.uniform(-1, 2), random.getrandbits(60))))


def _piece(random: Random) -> bytes:
    if random.randrange(10) < 7:
        return random.choice(edge_values.PIECES)
    return random.randbytes(random.randrange(1, 9))
