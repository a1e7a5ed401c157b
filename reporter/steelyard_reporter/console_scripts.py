"""The entry point of `steelyard-reporter`; it imports no more, so that ctrl-C is caught early."""

from steelyard_protocol import console_program


def reporter() -> int:
    """Run `steelyard-reporter`; return its exit status."""
    return console_program.run("steelyard-reporter", "steelyard_reporter.__main__")
