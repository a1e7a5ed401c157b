"""`steelyard-loadtest`: one subcommand a package, which adds itself; only the requested one is imported.

The simulator and the resilience tests are distributions of their own. If installed, they add theirs by the
entry point `steelyard_loadtest.commands`.
"""

if __name__ == "__main__":  # before the other imports, because ctrl-C may come during them
    from steelyard_loadtest.console_scripts import loadtest

    raise SystemExit(loadtest())


import argparse
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from importlib.util import find_spec

from steelyard_protocol import completion, help_text

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.reporting.exit_status import STATUSES

# Each package's `command` has add_parser(subparsers), whose parser sets `run`.
SUBCOMMANDS = ("cluster", "demo", "dataplane", "compare")

EXAMPLES = (
    "steelyard-loadtest cluster up                # http://localhost:8080 and the page on :8081",
    "steelyard-loadtest demo                      # two minutes of load, and a plot",
    "steelyard-loadtest compare slow-one --quick  # every algorithm under the same load",
)

ENTRY_POINTS = "steelyard_loadtest.commands"

# Modules that `make up` does not install, and the option that does; in the order of the help text.
NEEDED = {
    **dict.fromkeys(SUBCOMMANDS[1:], ("matplotlib", "--with-load")),
    "simulate": ("steelyard_simulator", "--with-simulator"),
    **dict.fromkeys(("chaos", "soak", "fuzz"), ("steelyard_resilience", "--with-tests")),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the subcommand and return the exit status; 2 for a wrong command line."""
    if completion.is_asked_for():
        arguments = completion.words()
    elif arguments is None:
        arguments = sys.argv[1:]
    missing = {name: needed for name, needed in NEEDED.items() if find_spec(needed[0]) is None}
    examples = [example for example in EXAMPLES if example.split()[1] not in missing]
    parser = argparse.ArgumentParser(
        prog="steelyard-loadtest",
        description="Local cluster, load and plots.",
        epilog=help_text.epilog(examples, STATUSES),
        formatter_class=help_text.HelpFormatter,
    )
    # Checked before anything is measured, because plotting modules are imported at the end.
    if arguments and arguments[0] in missing:
        module, level = missing[arguments[0]]
        parser.error(f"{arguments[0]} needs {module}, which is not installed: run `scripts/setup {level}`")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    known = [name for name in (SUBCOMMANDS[0], *NEEDED) if name not in missing]
    # Importing all takes a second of CPU time, so this happens only for --help and for a wrong word.
    try:
        for name in [arguments[0]] if arguments and arguments[0] in known else known:
            if name in SUBCOMMANDS:
                import_module(f"steelyard_loadtest.{name}.command").add_parser(subparsers)
            else:
                _installed()[name].load()(subparsers)
    except SetupError as error:  # no checkout, from which the list of pickers is read
        parser.error(str(error))
    if completion.is_asked_for():
        completion.answer(parser)
    options = parser.parse_args(arguments)
    status: int = options.run(options)
    return status


@cache
def _installed() -> EntryPoints:
    # This reads a file of each installed distribution, so most commands leave it out.
    return entry_points(group=ENTRY_POINTS)
