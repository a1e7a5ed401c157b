"""`steelyard completion`: the shell's code that completes the commands of this installation."""

import argparse
from importlib.metadata import entry_points

from steelyard_controller.cli.exit_status import Exit, UsageError
from steelyard_controller.cli.terminal.output import Output

SHELLS = ("bash", "zsh")


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "completion",
        help="print the code that completes commands in bash or zsh",
        description="Print the code with which bash or zsh completes this command, and those that are "
        "installed with it. It completes subcommands, flags and choices. Names of upstreams and servers "
        "appear if a controller answers within a second.",
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="|".join(SHELLS))
    parser.set_defaults(run=_completion)


def _completion(given: argparse.Namespace) -> int:
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise UsageError("completion needs argcomplete: pip install argcomplete") from None
    scripts = entry_points(group="console_scripts")
    programs = sorted(
        each.name for each in scripts if each.dist is not None and each.dist.name.startswith("steelyard-")
    )
    Output(as_json=False).lines([shellcode(programs, shell=given.shell).rstrip()])
    return Exit.OK
