"""The command line: its subcommands, what they share, and how they end.

A subcommand is a module that adds its own parser with `add`; add it to
`COMMANDS` for a new one. Only the one that runs imports what it needs to run.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from steelyard_controller import __version__
from steelyard_controller.cli import (
    apply,
    explain,
    history,
    laws,
    options,
    pin,
    replay,
    state,
    status,
    upstreams,
    watch,
    weights,
)
from steelyard_controller.cli.exits import MEANINGS, Exit, Failure

# In the order of --help: looking, changing, studying.
COMMANDS = (status, upstreams, weights, explain, history, watch, state, pin, apply, laws, replay)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal of another encoding shows what it can
    parsed = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        return run(parsed)
    except Failure as failure:
        sys.stdout.flush()
        print(f"steelyard: {' '.join(str(failure).split())}", file=sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`| head`); nothing is left to say, not even by the interpreter at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="steelyard",
        description="See and steer the weights of nginx's servers.",
        epilog="exit status: " + "; ".join(f"{status:d} {meaning}" for status, meaning in MEANINGS.items()),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"steelyard {__version__}")
    options.add(parser)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for module in COMMANDS:
        module.add(subparsers)
    return parser
