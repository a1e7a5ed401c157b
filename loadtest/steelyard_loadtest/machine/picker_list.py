"""The data plane's pickers, as openresty/ lists them in core/pickers.lua, and what each says of itself.

Read as text, since LuaJIT is not wherever the lab is; a test holds it to what Lua says.
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

# A line of the table: the name, and the file in pickers/ that it comes from.
_LINE = re.compile(r'^    (\w+) = (?:require "steelyard\.core\.pickers\.)?(\w+)(?:"|\.\w+),$', re.MULTILINE)


class ListedPicker(NamedTuple):
    """Its name; whether it goes by what is in flight, or by a key; and what must be installed for it."""

    name: str
    by_in_flight: bool
    by_key: bool
    library: str | None


@cache
def listed() -> tuple[ListedPicker, ...]:
    """Return all of them, in the file's order. Raises SetupError where there is no checkout."""
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
    """Return those of them that need no keys: before a few clients the others would go by their addresses."""
    return tuple(picker.name for picker in listed() if picker.library is None and not picker.by_key)
