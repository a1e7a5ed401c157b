"""What others say, as text that can stand in a log. Pure."""

LONGEST = 300


def one_line(text: str) -> str:
    """Return what came from outside as one short line."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
