"""YAML that people wrote: its value, and the line of each place in it; every mistake is one line. Pure.

PyYAML keeps the last of two equal keys in silence, and reads the names `no` and `1.50` as false and 1.5. Here
both are a ValueError, and so are aliases that multiply their content.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

# Aliases and merges may repeat this many values, so that the time to read a small file has a bound.
MOST_REPEATED = 1_000_000

_STRING, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

_KINDS = {
    "tag:yaml.org,2002:bool": "true or false",
    "tag:yaml.org,2002:int": "a number",
    "tag:yaml.org,2002:float": "a number",
    "tag:yaml.org,2002:null": "null",
    "tag:yaml.org,2002:timestamp": "a date",
}


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed text; its value is None if it is empty."""

    value: object
    root: yaml.Node | None

    def line_of(self, place: Sequence[str | int]) -> int | None:
        """Return the line of the innermost part of a place that stands in the text."""
        node, line = self.root, None
        for part in place:
            if isinstance(node, yaml.MappingNode):
                # Keys of a merge come first, and the mapping's own override them.
                pair = next((pair for pair in reversed(node.value) if pair[0].value == str(part)), None)
                if pair is None:
                    break
                line, node = _line(pair[0]), pair[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = _line(node)
            else:
                break
        return line


def parse(text: str) -> Document:
    """Return the parsed text, whose mappings have only texts as keys; raise ValueError."""
    try:
        loader = _Loader(text)  # raises for a control character
        root = loader.get_single_node()
        if root is None:
            return Document(None, None)
        _Checked().check(root)
        return Document(loader.construct_document(root), root)
    except yaml.MarkedYAMLError as error:
        raise ValueError(_one_line(error)) from None
    except yaml.YAMLError as error:
        raise ValueError(f"it is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError("its lists or mappings are nested too deeply") from None


def dump(document: object) -> str:
    """Return a document of plain values as YAML that `parse` reads as the same."""
    # With allow_unicode, PyYAML writes U+0085 as a line break, and reads that as a blank.
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110)


# YAML 1.2 has numbers without a point, such as 1e-06, and Helm writes them. PyYAML knows YAML 1.1 alone and
# takes them for text.
EXPONENT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$")

# YAML 1.1 reads 010 as 8 and 1:30 as 90. In YAML 1.2, the first is 10, and the second is a text.
_OTHER_BASE = re.compile(r"[-+]?0[0-9_]+|.*:.*")


class _Loader(yaml.SafeLoader):
    """A loader that raises a YAMLError with the line for every mistake."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        """Return the value of a node; for a wrong date, tag or number PyYAML raises errors of any type."""
        if node.tag in _NUMBERS and isinstance(node, yaml.ScalarNode) and _OTHER_BASE.fullmatch(node.value):
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"{_shown(node.value)} would be a number in base 8 or 60: write it in base 10, or in quotes",
                node.start_mark,
            )
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, IndexError, AttributeError, TypeError):
            raise yaml.constructor.ConstructorError(
                None, None, "no such date, number or other value of this type", node.start_mark
            ) from None


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes each text that `_Loader` would read as another value."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


for _each in (_Loader, _Dumper):
    _each.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+.0123456789"))


@dataclass(slots=True)
class _Checked:
    """The nodes that were checked: the size of each with its aliases written out, None within it."""

    sizes: dict[int, int | None] = field(default_factory=dict)

    def check(self, root: yaml.Node) -> None:
        """Raise ValueError for a wrong key, and for aliases that repeat too much."""
        if self._size(root) - len(self.sizes) > MOST_REPEATED:
            raise ValueError(
                f"its aliases repeat more than {MOST_REPEATED:,} values: write out what they stand for"
            )

    def _size(self, node: yaml.Node) -> int:
        known = self.sizes.get(id(node), 0)
        if known is None:
            raise ValueError(f"line {_line(node)}: an alias stands within its own anchor: leave it out")
        if not known:
            self.sizes[id(node)] = None
            parts: list[Any] = node.value if isinstance(node, yaml.CollectionNode) else []
            if isinstance(node, yaml.MappingNode):
                _check_keys(node)
                parts = [part for pair in parts for part in pair]
            known = self.sizes[id(node)] = 1 + sum(map(self._size, parts))
        return known


def _check_keys(mapping: yaml.MappingNode) -> None:
    lines: dict[str, int] = {}
    for key, _ in mapping.value:
        line = _line(key)
        if not isinstance(key, yaml.ScalarNode):
            raise ValueError(f"line {line}: a list or mapping is no key: write a text")
        name = _shown(key.value)
        if key.tag not in (_STRING, _MERGE):
            kind = _KINDS.get(key.tag, "another value than a text")
            raise ValueError(f'line {line}: the key {name} is read as {kind}: put it in quotes, "{name}"')
        if key.value in lines:
            first = "" if lines[key.value] == line else f", first in line {lines[key.value]}"
            remedy = "merge a list, <<: [*one, *other]" if key.tag == _MERGE else "leave one out"
            raise ValueError(f"line {line}: the key {name} occurs twice in one mapping{first}: {remedy}")
        lines[key.value] = line


def _one_line(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    at = "" if mark is None else f"line {mark.line + 1}: "
    if error.problem == "but found another document":
        return f"{at}a second document begins: put it into a file of its own"
    words = " ".join(f"{error.context or ''} {error.problem or ''}".split())
    remedy = ": indent with spaces" if r"'\t'" in words else ""
    return f"{at}it is not YAML: {words}{remedy}"


def _line(node: yaml.Node) -> int:
    line: int = node.start_mark.line
    return line + 1


def _shown(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    return printable if len(printable) <= 64 else f"{printable[:63]}…"
