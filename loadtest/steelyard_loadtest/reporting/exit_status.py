"""A command's exit status: a failure as a line on stderr, 130 after Ctrl-C (I/O)."""

import signal
import sys
from collections.abc import Callable

from steelyard_loadtest.machine.errors import ProgramError, SetupError

INTERRUPTED = 130
"""The shell's status for Ctrl-C."""

STATUSES = {
    0: "success",
    1: "the machine is not ready, a part of the cluster is degraded, or a check failed",
    2: "wrong command line or file, or a missing package",
    3: "cluster status: the cluster does not run",
    7: "the output cannot be written: the disk is full, or standard output is closed",
    130: "ended by ctrl-C or SIGTERM; finished measurements are kept",
}
"""The exit statuses of all subcommands; docs/reference/exit-status.md has the same."""


def exit_status(command: str, work: Callable[..., int | None], *arguments: object) -> int:
    """Do the work and return a status: 1 if the machine or a page is not ready, 130 after Ctrl-C.

    SetupError, ProgramError, OSError and ValueError become a line on stderr; others are bugs and pass.
    SIGTERM counts as Ctrl-C: finished measurements are kept.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return work(*arguments) or 0
    except (SetupError, ProgramError, OSError, ValueError) as error:
        print(f"steelyard-loadtest {command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
