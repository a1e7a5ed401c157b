"""What may go wrong outside of this program. Pure."""


class SetupError(Exception):
    """Nothing can be measured here; the text says why, and what to do."""


class ProgramError(Exception):
    """One program cannot be measured; the text says why. The others go on."""


class UnreadableError(ValueError):
    """A program said something else than it always does."""
