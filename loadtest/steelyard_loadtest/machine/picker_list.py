"""The data plane's pickers, as openresty/ lists them in core/pickers.lua, and what each says of itself.

Read as text, since LuaJIT is not wherever the lab is; a test holds it to what Lua says.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from steelyard_loadtest.machine.errors import SetupError

# loadtest/steelyard_loadtest/machine/picker_list.py in a checkout.
CORE = Path(__file__).parents[3] / "openresty/steelyard/lib/steelyard/core"

DEFAULT = "vnswrr2"

# A line of the table: the name, and the file in pickers/ that it comes from.
_LINE = re.compile(r'^    (\w+) = (?:require "steelyard\.core\.pickers\.)?(\w+)(?:"|\.\w+),$', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPicker:
    """A picker, and what it says of itself."""

    name: str
    by_in_flight: bool
    """It goes by what is in flight at each server."""
    library: str | None
    """What must be installed for it."""


@cache
def listed() -> tuple[ListedPicker, ...]:
    """Return all of them, in the file's order. Raises SetupError where there is no checkout."""
    try:
        lines = _LINE.findall((CORE / "pickers.lua").read_text(encoding="utf-8"))
        return tuple(_picker(name, CORE / "pickers" / f"{file}.lua") for name, file in lines)
    except OSError as error:
        raise SetupError(f"this needs a checkout of Steelyard: {error}") from None


def _picker(name: str, file: Path) -> ListedPicker:
    text = file.read_text(encoding="utf-8")
    library = re.search(r'\blibrary = "(.+?)"', text)
    return ListedPicker(
        name=name, by_in_flight="by_in_flight = true" in text, library=library[1] if library else None
    )


def own() -> tuple[str, ...]:
    """Return the names of Steelyard's own, which need no library."""
    return tuple(picker.name for picker in listed() if picker.library is None)
