"""Terminal styles: colours, no line wider than the terminal; `output` detects the terminal. Pure."""

from dataclasses import dataclass
from typing import Literal

Style = Literal["plain", "bold", "dim", "good", "warn", "bad", "bar"]

_CODES: dict[str, str] = {
    "bold": "1",
    "dim": "2",
    "good": "32",
    "warn": "33",
    "bad": "1;31",
    "bar": "36",
}

STATE_STYLES: dict[str, Style] = {"up": "plain", "drain": "warn", "down": "bad", "backup": "dim"}
RUNG_STYLES: dict[str, Style] = {"fresh": "good", "hold": "warn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The abilities of the output; `width` None: unlimited, because it is not a terminal."""

    width: int | None = None
    colour: bool = False
    ascii_only: bool = False

    def paint(self, text: str, style: Style) -> str:
        """Return the text in a style."""
        if not self.colour or style == "plain" or not text:
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"

    def cut(self, text: str, width: int | None = None) -> str:
        """Return the text, ended by an ellipsis if it is wider than `width` or the terminal."""
        width = self.width if width is None else width
        if width is None or len(text) <= width:
            return text
        if width < 1:
            return ""
        return f"{text[: width - 1]}{'~' if self.ascii_only else '…'}"

    def line(self, text: str, style: Style = "plain") -> str:
        """Return one line that does not wrap."""
        return self.paint(self.cut(text), style)

    @property
    def arrow(self) -> str:
        """Return the arrow between the values before and after a change."""
        return "->" if self.ascii_only else "→"
