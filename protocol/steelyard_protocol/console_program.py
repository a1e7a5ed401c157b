"""Runs a program between the shell and its `main`: standard streams, ctrl-C, exit status. I/O only.

A write to standard output never raises, because a program that has begun a change must finish it. The first
fault is kept in `StandardOutput.fault`, and the exit status has it at the end. If the reader has left
(`| head`), that is no fault. A command without an end looks at `is_output_lost` and stops.

`run` imports the program itself: ctrl-C during the imports ends it as the shell expects, without a
traceback. So this module imports little.
"""

import errno
import importlib
import io
import os
import select
import signal
import sys

OUTPUT_LOST = 7
"""Exit status: the program did its work, and its output could not be written."""

INTERRUPTED = 130
"""Exit status after ctrl-C, as a shell reports it."""


class _Descriptor(io.RawIOBase):
    """A descriptor that takes every write; the first fault is kept."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.fault: OSError | None = None

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview, /) -> int:  # type: ignore[override]
        with memoryview(data) as view:
            rest = view.cast("B")
            size = len(rest)
            while len(rest) and self.fault is None:
                try:
                    rest = rest[os.write(self._number, rest) :]
                except BlockingIOError:  # another process has made the same pipe non-blocking
                    select.select([], [self._number], [])
                except OSError as error:
                    self.fault = error
            rest.release()
            return size


class StandardOutput(io.TextIOWrapper):
    """Text on a descriptor; a failed write is kept in `fault` and raises nothing."""

    def __init__(self, number: int, like: io.TextIOWrapper | None, *, errors: str) -> None:
        """Write to the descriptor with the encoding and the buffering of `like`, if it was open."""
        self._descriptor = _Descriptor(number)
        unbuffered = like is not None and like.write_through
        super().__init__(
            self._descriptor if unbuffered else io.BufferedWriter(self._descriptor),  # type: ignore[arg-type, type-var]
            encoding="utf-8" if like is None else like.encoding,
            errors=errors,
            newline="\n",
            line_buffering=like is not None and like.line_buffering,
            write_through=unbuffered,
        )

    @property
    def fault(self) -> OSError | None:
        """Return the first fault, or None."""
        return self._descriptor.fault


def is_output_lost() -> bool:
    """Return whether standard output takes no more: its reader has left, or its disk is full."""
    return isinstance(sys.stdout, StandardOutput) and sys.stdout.fault is not None


def run(program: str, module: str) -> int:
    """Import the module, call its `main()`, and return the exit status."""
    output = _take_streams()
    # A shell lets programs in the background ignore ctrl-C.
    takes_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if takes_interrupts:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = importlib.import_module(module).main
    if takes_interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status = main()
    except SystemExit as ended:
        status = _status(ended)
    except KeyboardInterrupt:
        status = INTERRUPTED
    if takes_interrupts:  # a late ctrl-C ends the process at once, and not in the interpreter's own clean-up
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    output.flush()
    if output.fault is not None and output.fault.errno != errno.EPIPE:
        print(f"{program}: standard output cannot be written: {output.fault.strerror}", file=sys.stderr)
        return status or OUTPUT_LOST
    return status or 0


def _take_streams() -> StandardOutput:
    """Make standard output and standard error streams of this module; return the former."""
    for number, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:
            # It is closed (`>&-`). With a descriptor of the other direction, each use fails and is noticed.
            # Otherwise the next opened file would take its number.
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    output = StandardOutput(1, _wrapper(sys.stdout), errors="replace")
    sys.stdout = output
    sys.stderr = StandardOutput(2, _wrapper(sys.stderr), errors="backslashreplace")
    return output


def _wrapper(stream: object) -> io.TextIOWrapper | None:
    return stream if isinstance(stream, io.TextIOWrapper) else None


def _status(ended: SystemExit) -> int:
    """Return the status that the interpreter would give."""
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    print(ended.code, file=sys.stderr)
    return 1
