"""`steelyard-loadtest`: one subcommand a package, which adds itself; only the one that is meant is imported.

The simulator and the resilience tests are distributions of their own; they add theirs by the entry point
`steelyard_loadtest.commands` where they are installed.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points

from steelyard_loadtest.machine.errors import SetupError

# Each package's `command` has add_parser(subparsers), whose parser sets `run`.
SUBCOMMANDS = ("cluster", "demo", "dataplane", "compare")

ENTRY_POINTS = "steelyard_loadtest.commands"

# The commands of the other distributions, in the order of the help text.
ELSEWHERE = {
    "simulate": "steelyard-simulator",
    "chaos": "steelyard-resilience",
    "soak": "steelyard-resilience",
    "fuzz": "steelyard-resilience",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the subcommand and give the exit status; 2 for a wrong command line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    installed = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    parser = argparse.ArgumentParser(prog="steelyard-loadtest", description="Local cluster, load and plots.")
    if arguments and arguments[0] in ELSEWHERE.keys() - installed.keys():
        parser.error(
            f"{arguments[0]} is a command of {ELSEWHERE[arguments[0]]}, which is not installed: "
            "run `scripts/setup --with-tests`"
        )
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    known = [*SUBCOMMANDS, *(name for name in ELSEWHERE if name in installed)]
    # All of them take a second of CPU time: for --help and for a wrong word.
    try:
        for name in [arguments[0]] if arguments and arguments[0] in known else known:
            if name in SUBCOMMANDS:
                import_module(f"steelyard_loadtest.{name}.command").add_parser(subparsers)
            else:
                installed[name].load()(subparsers)
    except SetupError as error:  # no checkout: whatever compares reads from it which pickers there are
        parser.error(str(error))
    options = parser.parse_args(arguments)
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
