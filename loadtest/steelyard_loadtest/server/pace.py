"""Holds a server to a CPU limit without a control group: after working, it pauses until its time is paid.

    paid_at = max(paid_at, now - SLOT_S) + used / share,    share = cores * left

used: the CPU seconds of the whole process since the last pause, including its event loop's. So a request
takes as long as on a CPU of that share. Answers without work in a thread (`/bytes`, `/sleep`) are paid by the
next request with such work. The burners each hold a share of their own, as a kernel would give them (see
`burner`).
"""

import time
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

T = TypeVar("T")

SLOT_S = 0.020
"""An idle server saves at most this, the period of a control group's quota."""


class Pace:
    """The limit of one process; cores None: it has none, or something else holds it.

    left: returns the part of the limit that neighbours leave now.
    """

    def __init__(self, cores: float | None, left: Callable[[], float]) -> None:
        self._cores, self._left = cores, left
        self._paid_at_s, self._used_s = time.monotonic(), time.process_time()
        self._lock = Lock()  # several threads wait for a disk

    def after(self, work: Callable[..., T], *arguments: object) -> T:
        """Work, and return when the time that the process used is paid."""
        result = work(*arguments)
        if self._cores is not None:
            time.sleep(max(self._debt_s(self._cores), 0.0))
        return result

    def _debt_s(self, cores: float) -> float:
        with self._lock:
            now_s, used_s = time.monotonic(), time.process_time()
            share = cores * self._left()
            self._paid_at_s = max(self._paid_at_s, now_s - SLOT_S) + (used_s - self._used_s) / share
            self._used_s = used_s
            return self._paid_at_s - now_s
