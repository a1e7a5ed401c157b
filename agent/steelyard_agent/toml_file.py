"""The TOML file: the same settings under the same names, with underscores. Pure.

    upstream = "web"
    memcached = ["10.0.0.5:11211", "10.0.0.6:11211"]
    net_capacity = 125_000_000

A value becomes the text that a flag would have, so that one parser judges all sources.
Only tables, such as [[indicator]], have no flag: `indicators.declared` reads those.
"""

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from steelyard_protocol import program_settings
from steelyard_protocol.program_settings import Text


@dataclass(frozen=True, slots=True)
class Document:
    """A file: what it gives by the name of each flag, and its tables as they stand there."""

    path: Path
    texts: dict[str, Text]
    tables: dict[str, object]


def parse(path: Path, text: bytes, known: Collection[str], tables: Collection[str]) -> Document:
    """Return what a file says; raise ValueError that names the key. `tables` are keys that no flag has."""
    try:
        document = tomllib.loads(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except ValueError as error:  # the parser's own error says where
        raise ValueError(f"it is not TOML: {error}") from None
    keys = {flag.replace("-", "_"): flag for flag in known}
    given = {name: document.pop(name) for name in tables if name in document}
    texts = {}
    for key, value in document.items():
        if key not in keys:
            raise ValueError(f"{key!r} is no setting{_hint(key, keys, tables)}")
        texts[keys[key]] = Text(_text(key, value), f"{key} in {path}", program_settings.FILE)
    return Document(path, texts, given)


def _hint(key: str, keys: Collection[str], tables: Collection[str]) -> str:
    if key in {"key", "token"}:
        return f": put the {key} into a file of its own, and name that as {key}_file"
    if key.replace("-", "_") in keys:
        return f": write {key.replace('-', '_')}"
    return f"; the settings are {', '.join(sorted(keys))}, and the tables {', '.join(tables)}"


def _text(key: str, value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case str() | int() | float():
            return str(value)
        case [*parts] if parts and all(isinstance(part, str) for part in parts):
            return ",".join(str(part) for part in parts)
    raise ValueError(f"{key!r} is neither text, a number, true or false, nor a list of texts")
