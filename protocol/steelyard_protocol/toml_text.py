"""TOML that people wrote: its value; every mistake is one line with the remedy. Pure.

tomllib refuses a key or a table that occurs twice, as TOML does, and gives the line, but not the remedy.
"""

import re
import tomllib
from typing import Any

_TWICE = re.compile(r"Cannot (?:overwrite|declare|mutate|redefine)|Duplicate inline table key")


def parse(text: str) -> dict[str, Any]:
    """Return the content of a text; raise ValueError."""
    try:
        return tomllib.loads(
            f"{text}\n"
        )  # without a line end, it calls the last line the end of the document
    except ValueError as error:
        remedy = ": a key or table occurs twice, leave one out" if _TWICE.match(str(error)) else ""
        raise ValueError(f"it is not TOML: {error}{remedy}") from None
    except RecursionError:
        raise ValueError("its lists or tables are nested too deeply") from None
