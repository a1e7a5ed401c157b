"""A full-screen display in the terminal: draw lines, wait for keys and events, and restore the terminal.

It restores the terminal in every case: at the end of the block, at ctrl-Z and at SIGTERM.
"""

import contextlib
import os
import selectors
import signal
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Self

# The alternate screen without a cursor; and back.
_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_TOP = "\x1b[H"
_END_OF_LINE = "\x1b[K"
_REST = "\x1b[J"


class Screen:
    """Standard output as a screen, standard input as keys if it is a terminal. Main thread only."""

    def __init__(self) -> None:
        self._keys = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._page = sys.stdout.fileno()
        self._before: list[Any] | None = None
        self._is_gone = False
        self._handlers: dict[signal.Signals, Any] = {}
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        if self._keys is not None:
            self._selector.register(self._keys, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        if self._keys is not None:
            self._before = termios.tcgetattr(self._keys)
        # A signal writes to the pipe, so that `wait` returns; its handler does the rest.
        self._old_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._handle(signal.SIGWINCH, lambda _number, _frame: None)
        self._handle(signal.SIGTSTP, self._suspend)
        self._handle(signal.SIGTERM, self._terminate)
        self._show()
        return self

    def __exit__(self, *_: object) -> None:
        self._hide()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wake)
        self._selector.close()
        # The writing end stays open: a late thread may still call `wake`.
        os.close(self._woken)

    def wake(self) -> None:
        """End a wait; any thread may call it."""
        # A full pipe wakes `wait` anyway.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b"\0")

    def wait(self) -> str:
        """Wait for keys, a signal or `wake`; return the pressed keys, or q if the terminal has gone."""
        if self._is_gone:
            return "q"
        keys = ""
        for ready, _ in self._selector.select():
            try:
                received = os.read(ready.fd, 4096)
            except OSError:
                self._is_gone = True
                continue
            if ready.fd == self._keys:
                if not received:
                    self._selector.unregister(ready.fd)  # the keys' end has gone
                keys = received.decode("ascii", "replace")
        return keys

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines and nothing else; at most as many as the terminal has rows."""
        self._write(_TOP + "\r\n".join(f"{line}{_END_OF_LINE}" for line in lines) + _REST)

    def _show(self) -> None:
        if self._keys is not None:
            tty.setcbreak(self._keys, termios.TCSANOW)
        self._write(_ENTER)

    def _hide(self) -> None:
        self._write(_LEAVE)
        if self._keys is not None and self._before is not None:
            with contextlib.suppress(termios.error):  # the terminal has gone
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def _write(self, text: str) -> None:
        # Not through sys.stdout: ctrl-Z may come while it writes, and it cannot be entered twice.
        rest = text.encode(sys.stdout.encoding, "replace")
        try:
            while rest:
                rest = rest[os.write(self._page, rest) :]
        except OSError:
            self._is_gone = True

    def _handle(self, number: signal.Signals, handler: Callable[[int, FrameType | None], None]) -> None:
        self._handlers[number] = signal.signal(number, handler)

    def _suspend(self, _number: int, _frame: FrameType | None) -> None:
        self._hide()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # It goes on here after SIGCONT.
        signal.signal(signal.SIGTSTP, self._suspend)
        self._show()

    def _terminate(self, number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)
