"""Standard output: its width, its colours, and printing lines or JSON."""

import json
import os
import shutil
import sys
from collections.abc import Iterable

from steelyard_controller.cli.terminal.style import Look


def can_draw() -> bool:
    """Return whether standard output is a terminal with colours and cursor movement."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


class Output:
    """The output of a command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    @property
    def look(self) -> Look:
        """Return the look of the output now: its width may have changed; without a terminal, plain lines."""
        encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
        return Look(
            width=shutil.get_terminal_size().columns if sys.stdout.isatty() else None,
            colour=can_draw() and not os.environ.get("NO_COLOR"),
            ascii_only=not encoding.startswith("utf"),
        )

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines."""
        for line in lines:
            print(line)
        sys.stdout.flush()

    def document(self, document: object) -> None:
        """Write a document as JSON: in one line, or indented on a terminal."""
        if isinstance(document, bytes):
            document = json.loads(document)
        print(json.dumps(document, indent=2 if sys.stdout.isatty() else None), flush=True)

    def answer(self, document: object, lines: Iterable[str]) -> None:
        """Write the document with --json, the lines otherwise."""
        if self.as_json:
            self.document(document)
        else:
            self.lines(lines)
