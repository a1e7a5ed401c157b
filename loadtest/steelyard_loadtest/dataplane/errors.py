"""What may go wrong outside of this program. Pure."""


class BenchError(Exception):
    """The benchmark cannot go on; the text says why, and what to do."""


class ContenderError(Exception):
    """One contender cannot be measured; the text says why. The others go on."""
