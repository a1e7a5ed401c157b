"""The entry point of `steelyard-agent`; it imports no more, so that ctrl-C is caught early."""

from steelyard_protocol import console_program


def agent() -> int:
    """Run `steelyard-agent`; return its exit status."""
    return console_program.run("steelyard-agent", "steelyard_agent.__main__")
