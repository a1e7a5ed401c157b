"""Completion in a shell, which starts the program with _ARGCOMPLETE in the environment at each TAB. I/O only.

argcomplete then writes the completions of a parser and ends the process. A program without argcomplete
must end too: it must not begin its work because of a TAB.
"""

import argparse
import os
import re
from typing import NoReturn

from steelyard_protocol.program_settings import Flags

_WORD = re.compile(r"[a-z0-9-]+")


def is_asked_for() -> bool:
    """Return whether a shell asks for completions."""
    return "_ARGCOMPLETE" in os.environ


def words() -> list[str]:
    """Return the words of the line behind the program; the last one is to be completed, and may be empty."""
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    return [*line.split(), ""][1:] if line[-1:].isspace() else line.split()[1:]


def of_flags(flags: Flags) -> None:
    """Answer the shell with a program's flags and words such as `auto|host`, and end; else do nothing."""
    if not is_asked_for():
        return
    parser = flags.parser()
    for action in parser._actions:
        words = [word for word in str(action.metavar).split("|") if _WORD.fullmatch(word)]
        if words:
            _set(action, words)
    answer(parser, flags_first=True)


def answer(parser: argparse.ArgumentParser, *, flags_first: bool = False) -> NoReturn:
    """Write the completions of a command line, and end the process.

    `flags_first`: flags are offered at once, and otherwise from a dash on.
    """
    try:
        import argcomplete
    except ImportError:
        os._exit(1)
    argcomplete.autocomplete(parser, always_complete_options="long" if flags_first else False)
    os._exit(1)  # the environment has no whole request


def _set(action: argparse.Action, words: list[str]) -> None:
    action.completer = lambda **_: words  # type: ignore[attr-defined]
