"""`steelyard-loadtest`: one subcommand a package, each of which adds itself."""

import argparse
import sys
from collections.abc import Sequence

from steelyard_loadtest import chaos, cluster, dataplane, demo, fuzz, simulate, soak
from steelyard_loadtest.lab import command as compare

# Each a package with add_parser(subparsers), whose parser sets `run`.
SUBCOMMANDS = (cluster, demo, dataplane, compare, simulate, chaos, soak, fuzz)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the subcommand and give the exit status; 2 for a wrong command line."""
    parser = argparse.ArgumentParser(prog="steelyard-loadtest", description="Local cluster, load and plots.")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for subcommand in SUBCOMMANDS:
        subcommand.add_parser(subparsers)
    options = parser.parse_args(arguments)
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
