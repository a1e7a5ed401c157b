"""The exit statuses of `steelyard`, and their exceptions. Pure."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses; 2 is also argparse's own, 7 and 130 are `console_program`'s."""

    OK = 0
    NOT_WELL = 1
    USAGE = 2
    UNREACHABLE = 3
    DENIED = 4
    UNKNOWN = 5
    NOT_DONE = 6
    OUTPUT_LOST = 7
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "success",
    Exit.NOT_WELL: "degraded, not ready yet, or --wait saw no new table",
    Exit.USAGE: "wrong command line, environment variable or file",
    Exit.UNREACHABLE: "no controller answers, or none can now: no leader, no first tick, no state store",
    Exit.DENIED: "the token is missing, wrong, or lacks the right",
    Exit.UNKNOWN: "there is no such upstream or peer",
    Exit.NOT_DONE: "the controller refuses the change: another one came first, or the value is wrong",
    Exit.OUTPUT_LOST: "the output cannot be written: the disk is full, or standard output is closed",
    Exit.INTERRUPTED: "ended by ctrl-C (watch: 0)",
}


class Failure(Exception):
    """Ends the command with `status`; the message is one line with the cause and the remedy."""

    def __init__(self, status: Exit, message: str) -> None:
        super().__init__(message)
        self.status = status


class Busy(Failure):
    """The controller has no place for one more stream; it answers other requests."""


class UsageError(Failure):
    """The command line, the environment or a file is wrong; the message names the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(Exit.USAGE, message)
