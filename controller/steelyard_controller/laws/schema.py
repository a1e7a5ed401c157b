"""What a law's memory holds: its columns and scalars, their first values and their bounds.

Pure. One description serves for starting, for following peers that come and go,
and for refusing a damaged memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# Beyond this no sum of a law can honestly get; a memory that holds more is damaged.
LARGEST = 1e18


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A figure per peer (`width` 0), or `width` of them (a row of a matrix).

    `initial` is what a peer starts with; NaN means "none yet", and only such a column may hold it.
    """

    initial: float = 0.0
    width: int = 0
    low: float = 0.0
    high: float = LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A figure of the whole upstream."""

    initial: float = 0.0
    low: float = 0.0
    high: float = LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A law's memory: raise `version` when a figure changes its meaning."""

    law: str
    version: int
    columns: Mapping[str, Column]
    scalars: Mapping[str, Scalar]
