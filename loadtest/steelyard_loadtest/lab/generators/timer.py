"""A clock that wakes an event loop to the tenth of a millisecond.

Loops wait with epoll, which counts whole milliseconds: at 5 ms of latency that
would be 10 % too much. Linux's timerfd_create(2) counts nanoseconds; Python has it
from 3.13 on.
"""

import ctypes
import os
import time

TFD_NONBLOCK, TFD_CLOEXEC, TFD_TIMER_ABSTIME = os.O_NONBLOCK, os.O_CLOEXEC, 1
NANOSECONDS = 1_000_000_000


class _Moment(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


class _Timer(ctypes.Structure):
    _fields_ = (("interval", _Moment), ("first", _Moment))


class Timer:
    """A descriptor that becomes readable when its moment has come."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def fileno(self) -> int:
        """Return the descriptor."""
        return int(self._fd)

    def set(self, at_s: float) -> None:
        """Wake at a moment of time.monotonic's clock; at once when it has passed."""
        seconds, nanoseconds = divmod(max(round(at_s * NANOSECONDS), 1), NANOSECONDS)
        timer = _Timer(first=_Moment(s=seconds, ns=nanoseconds))
        if self._libc.timerfd_settime(self._fd, TFD_TIMER_ABSTIME, ctypes.byref(timer), None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)
