"""Columns that the upstreams of a batch share, and one upstream's part of them. Pure.

A step of a batch answers with one array for each name, whose rows are the upstreams. Most figures are never
read, and the next step takes the memories of the same upstreams. So an upstream has a part of the arrays,
which are cut only when somebody reads a figure, and `joined` returns them uncut.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np


class Part(Mapping[str, Any]):
    """The figures of the upstream at `row` of shared columns, by name; arrays are views."""

    __slots__ = ("row", "shared")

    def __init__(self, shared: Mapping[str, Any], row: int) -> None:
        self.shared = shared
        self.row = row

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a row of the column's type
        return self.shared[name][self.row]

    def __iter__(self) -> Iterator[str]:
        return iter(self.shared)

    def __len__(self) -> int:
        return len(self.shared)

    def __contains__(self, name: object) -> bool:
        return name in self.shared


def joined(parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the figures of m upstreams, of the same names and shapes, as shared columns of m rows."""
    first = parts[0]
    if isinstance(first, Part) and all(isinstance(one, Part) and one.shared is first.shared for one in parts):
        rows = [one.row for one in parts if isinstance(one, Part)]
        count = max(map(len, first.shared.values()), default=0)
        # The usual case: the upstreams that stepped together at the previous tick.
        if rows == list(range(count)):
            return first.shared
        return {name: column[rows] for name, column in first.shared.items()}
    return {name: np.array([one[name] for one in parts]) for name in first}
