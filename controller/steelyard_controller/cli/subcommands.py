"""The entry of `steelyard`: its subcommands, their common flags, and the exit status.

A module of subcommands adds its own parsers with `add`; a new module goes into
`COMMANDS`. A subcommand imports slow modules (numpy) only when it runs.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from steelyard_protocol import completion, help_text

from steelyard_controller import __version__
from steelyard_controller.cli import (
    apply_command,
    command_help,
    completion_command,
    connection_flags,
    key_commands,
    law_commands,
    peer_commands,
    show_commands,
    watch_command,
)
from steelyard_controller.cli.exit_status import MEANINGS, Exit, Failure

# In the order of --help: looking, changing, setting up, studying.
COMMANDS = (
    show_commands,
    watch_command,
    peer_commands,
    apply_command,
    key_commands,
    law_commands,
    completion_command,
)

FIRST = (
    "steelyard status                  # is all well?",
    "steelyard explain web server-1    # why has this server its weight?",
    "steelyard drain web server-1      # no new requests for it",
    "steelyard drain --help            # flags, examples and exit statuses of one command",
)
"""Examples for somebody who is new."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal of another encoding shows the rest
    parser = _parser()
    if completion.is_asked_for():
        completion.answer(parser)
    parsed = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        return run(parsed)
    except Failure as failure:
        sys.stdout.flush()
        print(f"steelyard: {' '.join(str(failure).split())}", file=sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="steelyard",
        description="Show and steer the weights of nginx's servers. An upstream is a named group of servers, "
        "and a peer is one server of it. Flags come before or after the command.",
        epilog=help_text.epilog(FIRST, {int(status): meaning for status, meaning in MEANINGS.items()}),
        formatter_class=help_text.HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"steelyard {__version__}")
    connection_flags.add(parser)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for module in COMMANDS:
        module.add(subparsers)
    command_help.add(subparsers)
    return parser
