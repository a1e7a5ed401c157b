"""YAML that people wrote: its value, and the line of each place in it; every mistake is one line. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import yaml


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
                pair = next((pair for pair in node.value if pair[0].value == str(part)), None)
                if pair is None:
                    break
                line, node = pair[0].start_mark.line + 1, pair[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line + 1
            else:
                break
        return line


def parse(text: str) -> Document:
    """Return the parsed text; raise ValueError."""
    try:
        loader = _Loader(text)  # raises for a control character
        root = loader.get_single_node()
        return Document(None if root is None else loader.construct_document(root), root)
    except yaml.YAMLError as error:
        raise ValueError(f"it is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError("its lists or mappings are nested too deeply") from None


# YAML 1.2 has numbers without a point, such as 1e-06, and Helm writes them. PyYAML knows YAML 1.1 alone and
# takes them for text.
EXPONENT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$")


class _Loader(yaml.SafeLoader):
    """A loader that raises a YAMLError with the line for every mistake."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        """Return the value of a node; for a wrong date, tag or number PyYAML raises errors of any type."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, IndexError, AttributeError, TypeError):
            raise yaml.constructor.ConstructorError(
                None, None, "no such date, number or other value of this type", node.start_mark
            ) from None


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+.0123456789"))
