"""The data plane's pickers, as listed in openresty's core/pickers.lua, with their properties.

Read as text, because the lab may run without LuaJIT; a test compares it with Lua.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from steelyard_loadtest.machine.errors import SetupError

# loadtest/steelyard_loadtest/machine/picker_list.py in a checkout.
OPENRESTY = Path(__file__).parents[3] / "openresty"
CORE = OPENRESTY / "steelyard/lib/steelyard/core"

DEFAULT = "vnswrr2"

# A line of the table: the name, and its file in pickers/.
_LINE = re.compile(r'^    (\w+) = (?:require "steelyard\.core\.pickers\.)?(\w+)(?:"|\.\w+),$', re.MULTILINE)


class ListedPicker(NamedTuple):
    """Its name; whether it uses requests in flight, or a key; and the library that it needs."""

    name: str
    by_in_flight: bool
    by_key: bool
    library: str | None


@cache
def listed() -> tuple[ListedPicker, ...]:
    """Return all of them, in the file's order. Raises SetupError without a checkout."""
    pickers = []
    try:
        for name, file in _LINE.findall((CORE / "pickers.lua").read_text(encoding="utf-8")):
            text = (CORE / "pickers" / f"{file}.lua").read_text(encoding="utf-8")
            library = re.search(r'\blibrary = "(.+?)"', text)
            says = ("by_in_flight = true" in text, "by_key = true" in text)
            pickers.append(ListedPicker(name, *says, library and library[1]))
    except OSError as error:
        raise SetupError(f"this needs a checkout of Steelyard: {error}") from None
    return tuple(pickers)


def own() -> tuple[str, ...]:
    """Return the names of Steelyard's own, which need no library."""
    return tuple(picker.name for picker in listed() if picker.library is None)


def keyless() -> tuple[str, ...]:
    """Return those of them that need no keys: with few clients the others would use their addresses."""
    return tuple(picker.name for picker in listed() if picker.library is None and not picker.by_key)
