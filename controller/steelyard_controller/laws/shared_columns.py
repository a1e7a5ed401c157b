"""Columns that the upstreams of a batch share, and one upstream's part of them. Pure.

A step of a batch answers with one array for each name, whose rows are the upstreams. Most figures are never
read. So an upstream has a part of the arrays, which are cut only when somebody reads a figure.
"""

from collections.abc import Iterator, Mapping
from typing import Any


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
