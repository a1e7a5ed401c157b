"""The end of a program's --help: examples, and the exit statuses that may come. Pure."""

import argparse
from collections.abc import Mapping, Sequence


class HelpFormatter(argparse.HelpFormatter):
    """Wraps paragraphs, and leaves lines that begin with a blank as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = text.splitlines()
        return "\n".join(
            line if line.startswith(" ") else super(HelpFormatter, self)._fill_text(line, width, indent)
            for line in lines
        )


def epilog(examples: Sequence[str], statuses: Mapping[int, str]) -> str:
    """Return the end of a help. An example is a command, or a command and its purpose behind `  # `."""
    lines = ["examples:", *(f"  {example}" for example in examples), ""] if examples else []
    if statuses:
        lines += ["exit status:", *(f"  {status:<4}{meaning}" for status, meaning in statuses.items())]
    return "\n".join(lines)
