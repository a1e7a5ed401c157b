"""Standard output: how wide it is, whether it shows colours, and what is written to it."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO

from steelyard_controller.cli.look import Look


def can_draw(out: TextIO, environment: Mapping[str, str]) -> bool:
    """Tell whether a stream is a terminal that knows colours and the places on its screen."""
    return out.isatty() and environment.get("TERM") != "dumb"


def look_of(out: TextIO, environment: Mapping[str, str]) -> Look:
    """Return what a stream can show; what is no terminal is wide and plain."""
    terminal = out.isatty()
    encoding = (out.encoding or "ascii").lower().replace("-", "")
    return Look(
        width=shutil.get_terminal_size().columns if terminal else None,
        colour=can_draw(out, environment) and not environment.get("NO_COLOR"),
        ascii_only=not encoding.startswith("utf"),
    )


class Output:
    """Where a command writes its answer."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    @property
    def look(self) -> Look:
        """Return what can be shown now; a terminal may have changed its width."""
        return look_of(sys.stdout, os.environ)

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines."""
        for line in lines:
            print(line)
        sys.stdout.flush()

    def document(self, document: object) -> None:
        """Write a document as JSON: in one line, but for a person to read with indentation."""
        if isinstance(document, bytes):
            document = json.loads(document)
        print(json.dumps(document, indent=2 if sys.stdout.isatty() else None), flush=True)

    def answer(self, document: object, lines: Iterable[str]) -> None:
        """Write the document where --json asks for it, else the lines."""
        if self.as_json:
            self.document(document)
        else:
            self.lines(lines)
