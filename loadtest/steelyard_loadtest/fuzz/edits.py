"""Edits of an input: of its JSON as a tree, where it is some, and of its bytes. Pure.

An edit says where by a number, which is taken modulo what there is: so any edit fits any input, whoever drew
it
(a seeded generator, hypothesis, libFuzzer).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

LONGEST = 64 * 1024
"""Bytes. What is longer only takes longer; what lies at the limits of a decoder has examples of its own."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A text that stands for a value, whether it is JSON or not."""

    text: str


@dataclass(frozen=True, slots=True)
class Members:
    """An object whose names may repeat."""

    pairs: tuple[tuple[str, "Node"], ...]


Node = Raw | Members | list["Node"]

TreeKind = Literal["replace", "remove", "rename", "repeat", "nest", "lengthen", "move"]
TREE_KINDS: tuple[TreeKind, ...] = ("replace", "remove", "rename", "repeat", "nest", "lengthen", "move")

ByteKind = Literal["insert", "cut", "flip", "double", "truncate"]
BYTE_KINDS: tuple[ByteKind, ...] = ("insert", "cut", "flip", "double", "truncate")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEdit:
    """At the node number `at`: put `value` there, remove it, name it `key` ... `count`: how deep or often."""

    kind: TreeKind
    at: int
    value: str = "null"
    key: str = '"v"'
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteEdit:
    """At the byte number `at`: put `piece` there, cut `count` bytes out ..."""

    kind: ByteKind
    at: int
    piece: bytes = b""
    count: int = 1


def edited(seed: bytes, trees: Sequence[TreeEdit], bytes_: Sequence[ByteEdit]) -> bytes:
    """Return the seed after the edits, those of its tree first; it is at most LONGEST bytes."""
    data = seed
    if trees:
        tree = parsed(seed)
        if tree is not None:
            for edit in trees:
                tree = tree_edited(tree, edit)
            data = written(tree).encode("utf-8", "surrogatepass")
    for byte_edit in bytes_:
        data = bytes_edited(data[:LONGEST], byte_edit)
    return data[:LONGEST]


def parsed(text: bytes) -> Node | None:
    """Return the tree of a JSON text; None when it is none."""
    try:
        return _node(json.loads(text, object_pairs_hook=lambda pairs: Members(tuple(pairs))))
    except (ValueError, RecursionError):
        return None


def written(node: Node) -> str:
    """Return a tree as text."""
    match node:
        case Raw():
            return node.text
        case Members():
            return "{" + ",".join(f"{key}:{written(value)}" for key, value in node.pairs) + "}"
    return "[" + ",".join(written(value) for value in node) + "]"


def tree_edited(tree: Node, edit: TreeEdit) -> Node:
    """Return the tree after one edit."""
    paths = _paths(tree)
    path = paths[edit.at % len(paths)]
    found = _get(tree, path)
    match edit.kind:
        case "replace":
            return _put(tree, path, Raw(edit.value))
        case "nest":
            return _put(tree, path, Raw("[" * edit.count + written(found) + "]" * edit.count))
        case "move":
            other = paths[(edit.at // len(paths)) % len(paths)]
            return _put(tree, path, Raw(written(_get(tree, other))))
    if not path:
        return tree
    parent, place = _get(tree, path[:-1]), path[-1]
    if isinstance(parent, list):
        row = parent[place]
        times = {"remove": 0, "lengthen": edit.count}.get(edit.kind, 2)
        return _put(tree, path[:-1], [*parent[:place], *[row] * times, *parent[place + 1 :]])
    assert isinstance(parent, Members)  # noqa: S101 - a path leads through lists and objects alone
    key, value = parent.pairs[place]
    now = {
        "remove": (),
        "rename": ((edit.key, value),),
        "repeat": ((key, value), (key, Raw(edit.value))),
    }.get(edit.kind, ((key, value), *((f'"x{n}"', value) for n in range(edit.count))))
    return _put(tree, path[:-1], Members((*parent.pairs[:place], *now, *parent.pairs[place + 1 :])))


def bytes_edited(data: bytes, edit: ByteEdit) -> bytes:
    """Return the bytes after one edit."""
    at = edit.at % (len(data) + 1)
    end = min(len(data), at + edit.count)
    match edit.kind:
        case "insert":
            return data[:at] + edit.piece + data[at:]
        case "cut":
            return data[:at] + data[end:]
        case "double":
            return data[:end] + data[at:end] + data[end:]
        case "truncate":
            return data[:at]
    if at == len(data):
        return data
    return data[:at] + bytes([data[at] ^ (1 << edit.count % 8)]) + data[at + 1 :]


def _node(value: object) -> Node:
    match value:
        case Members():
            return Members(tuple((json.dumps(key), _node(each)) for key, each in value.pairs))
        case list():
            return [_node(each) for each in value]
    return Raw(json.dumps(value))


def _paths(node: Node, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    found = [path]
    children = node.pairs if isinstance(node, Members) else ()
    for place, (_, child) in enumerate(children):
        found += _paths(child, (*path, place))
    for place, child in enumerate(node if isinstance(node, list) else ()):
        found += _paths(child, (*path, place))
    return found


def _get(node: Node, path: Sequence[int]) -> Node:
    for place in path:
        assert not isinstance(node, Raw)  # noqa: S101 - a path leads through lists and objects alone
        node = node.pairs[place][1] if isinstance(node, Members) else node[place]
    return node


def _put(node: Node, path: Sequence[int], value: Node) -> Node:
    if not path:
        return value
    place, rest = path[0], path[1:]
    if isinstance(node, Members):
        key, child = node.pairs[place]
        return Members((*node.pairs[:place], (key, _put(child, rest, value)), *node.pairs[place + 1 :]))
    assert isinstance(node, list)  # noqa: S101 - as above
    return [*node[:place], _put(node[place], rest, value), *node[place + 1 :]]
