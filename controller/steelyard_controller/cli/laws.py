"""`steelyard laws`: the laws and their parameters."""

import argparse

from steelyard_controller.cli import options
from steelyard_controller.cli.exits import Exit
from steelyard_controller.cli.output import Output


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser("laws", help="the laws and their parameters: units, defaults, reasons")
    parser.add_argument("--json", default=argparse.SUPPRESS, action="store_true", help="as a JSON document")
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    from steelyard_controller.cli.views import laws as view  # numpy takes a moment that others need not wait

    Output(as_json=options.wants_json(given)).answer(view.document(), view.lines())
    return Exit.OK
