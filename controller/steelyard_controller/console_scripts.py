"""The entry points of both commands; they import no more, so that ctrl-C is caught early."""

from steelyard_protocol import console_program


def controller() -> int:
    """Run `steelyard-controller`; return its exit status."""
    return console_program.run("steelyard-controller", "steelyard_controller.__main__")


def steelyard() -> int:
    """Run `steelyard`; return its exit status."""
    return console_program.run("steelyard", "steelyard_controller.cli.subcommands")
