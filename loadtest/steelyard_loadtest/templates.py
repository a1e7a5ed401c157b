"""Configuration files from templates in jinja2's language.

A name without a value is an error (StrictUndefined). A line with only a tag leaves no line.
`{{ value | json }}` writes JSON, which is a quoted string in YAML and HAProxy. `{{ value | lua }}` writes
Lua: a quoted string, a number, a table, or a function unchanged.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

LUA_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LUA_WIDTH = 80
"""A longer table takes a line for each of its entries."""


def render_file(file: Path, values: Mapping[str, object]) -> str:
    """Return a template file with these values; included or extended files are in the same folder."""
    environment = Environment(
        loader=FileSystemLoader(file.parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - configuration files and Markdown are no HTML
    )
    environment.filters |= {"json": json.dumps, "lua": lua}
    return environment.get_template(file.name).render(values)


def lua(value: object, indent: int = 12) -> str:
    """Return a value as Lua source, without a mapping's None values.

    indent: of the text's own line, for the lines of a long table.
    """
    if isinstance(value, Mapping):
        entries = [
            (name if LUA_NAME.fullmatch(name) else f"[{lua(name)}]") + f" = {lua(entry, indent + 4)}"
            for name, entry in value.items()
            if entry is not None
        ]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        entries = [lua(entry, indent + 4) for entry in value]
    elif isinstance(value, str) and value.startswith("function("):
        return value
    else:
        return json.dumps(value, ensure_ascii=False)
    line = "{ " + ", ".join(entries) + " }" if entries else "{}"
    if len(line) <= LUA_WIDTH and "\n" not in line:
        return line
    inner = " " * (indent + 4)
    return "{\n" + "".join(f"{inner}{entry},\n" for entry in entries) + " " * indent + "}"
