"""Types of flags: text in, a value or argparse's error out. Pure.

Each function returns a `type=` for argparse: `flag("--rounds", type=whole(0, 100, "rounds"))`.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

from steelyard_loadtest.server.bounds import number as number
from steelyard_loadtest.server.bounds import whole as whole

T = TypeVar("T")

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The subparsers to which a subcommand adds itself."""


def ascending(item: Callable[[str], int]) -> Callable[[str], tuple[int, ...]]:
    """Take comma-separated numbers; return each once, ascending."""

    def parse(text: str) -> tuple[int, ...]:
        return tuple(sorted({item(part) for part in text.split(",")}))

    return parse


def names(known: Mapping[str, T] | Callable[[], Mapping[str, T]]) -> Callable[[str], tuple[T, ...]]:
    """Take comma-separated names; return the named values, in the given order."""

    def parse(text: str) -> tuple[T, ...]:
        table = known() if callable(known) else known
        asked = dict.fromkeys(part.strip() for part in text.split(","))
        unknown = [name for name in asked if name not in table]
        if unknown:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}; there are {', '.join(table)}")
        return tuple(table[name] for name in asked)

    return parse


def add_output(parser: argparse.ArgumentParser, out: str | None, page: str = "the report") -> None:
    """Add --out (a folder; None: no default) and --page (a file with marks for the report)."""
    folder = "folder for results" + (" (default %(default)s)" if out else "")
    parser.add_argument("--out", type=Path, default=Path(out) if out else None, metavar="DIR", help=folder)
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help=f"also write {page} between the marks of this page"
    )


def given(options: argparse.Namespace, defaults: Mapping[str, object], order: Iterable[str]) -> list[str]:
    """Return the flags that differ from their defaults as words of a command line, in this order."""
    words: list[str] = []
    for name in order:
        value = getattr(options, name, None)
        if value is None or value is False or value == defaults.get(name):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(",".join(map(str, value)) if isinstance(value, tuple | list) else str(value))
    return words
