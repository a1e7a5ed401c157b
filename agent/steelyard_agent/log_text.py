"""Text from other programs, made safe for the log. Pure."""

LONGEST_LINE = 300


def one_line(text: str) -> str:
    """Return a text from outside as one short line."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"
