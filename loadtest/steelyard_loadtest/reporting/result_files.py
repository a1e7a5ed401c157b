"""Writes result files: CSV, compressed where the name ends in .gz, and JSON (I/O)."""

import gzip
import json
from dataclasses import asdict, is_dataclass
from pathlib import Path


def write_text(file: Path, text: str) -> Path:
    """Write a text, compressed without a time stamp where the name ends in .gz. Raises OSError.

    In one step, so that nobody reads half of it.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)
    return fresh.replace(file)


def json_text(document: object) -> str:
    """Return a document with one space of indent; dataclasses in it become objects."""

    def plain(value: object) -> object:
        return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)

    return json.dumps(document, indent=1, default=plain, ensure_ascii=False) + "\n"
