"""Failures outside of this program. Pure."""


class SetupError(Exception):
    """Nothing can be measured here; the text has the reason and the remedy."""


class ProgramError(Exception):
    """One program cannot be measured; the text has the reason. The others continue."""


class UnreadableError(ValueError):
    """A program's output has an unexpected form."""
