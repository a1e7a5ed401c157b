"""Signals, waited for one at a time, on every platform. I/O only.

Python writes the number of each handled signal into a socket, and asyncio waits for
signals in the same way. So the handlers do nothing: no signal interrupts a sample, and none is
missed. The function sigtimedwait would do without the socket, but macOS and Windows do not have it.
Python 3.11's takes a continued process (SIGCONT) for a received signal.
"""

import select
import signal
import socket
from collections.abc import Iterable
from types import FrameType


class SignalWaiter:
    """Catches the wanted signals from now on; to be made in the main thread, and once in a process."""

    def __init__(self, wanted: Iterable[signal.Signals]) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in wanted:
            signal.signal(number, _caught)

    def within(self, timeout_s: float) -> int | None:
        """Return the next signal, if it arrives within the timeout (or already has); else None."""
        select.select([self._reader], [], [], timeout_s)
        try:
            return self._reader.recv(1)[0]
        except BlockingIOError:
            return None


def _caught(number: int, frame: FrameType | None) -> None:
    """Do nothing: the number is in the socket already."""
