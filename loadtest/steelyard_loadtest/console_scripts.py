"""The entry point of `steelyard-loadtest`; it imports no more, so that ctrl-C is caught early."""

from steelyard_protocol import console_program


def loadtest() -> int:
    """Run `steelyard-loadtest`; return its exit status."""
    return console_program.run("steelyard-loadtest", "steelyard_loadtest.__main__")
