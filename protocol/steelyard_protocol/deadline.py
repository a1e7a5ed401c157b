"""Sockets that share one deadline. I/O only.

A socket's timeout is for one call: a peer that sends a byte now and then is
never late, and holds its reader for ever. Here connect, send and every read
share the time between `Deadline.start` and its end.
"""

import socket
from collections.abc import Callable
from typing import Any

# pymemcache asks for 4 kB at a time. For each of these reads, Python calls the system three times.
READ_BYTES = 2**16


class Deadline:
    """The rest of a time; `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until_s = 0.0

    def start(self, seconds: float) -> None:
        """Start the time again."""
        self._until_s = self._clock() + seconds

    def left_s(self) -> float:
        """Return the seconds left; raise TimeoutError if there are none."""
        left_s = self._until_s - self._clock()
        if left_s <= 0:
            raise TimeoutError("timed out")
        return left_s


class DeadlineSockets:
    """The socket module in the form that pymemcache expects, with sockets that share a deadline.

    Connecting takes at most one of `connect_shares` equal parts of the time left, so that time remains
    for other addresses.
    """

    def __init__(self, deadline: Deadline, *, connect_shares: int = 1) -> None:
        self._deadline = deadline
        self._connect_shares = connect_shares

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the module has)
        return getattr(socket, name)

    def socket(self, *arguments: int) -> "DeadlineSocket":
        """Return a socket."""
        made = DeadlineSocket(*arguments)
        made.deadline = self._deadline
        made.connect_shares = self._connect_shares
        return made


class DeadlineSocket(socket.socket):
    """A socket whose calls all end at `deadline`."""

    deadline: Deadline
    connect_shares: int
    _ahead = b""
    _used = 0

    def connect(self, address: Any) -> None:  # noqa: ANN401 (a socket's signature)
        """Connect."""
        self.settimeout(self.deadline.left_s() / self.connect_shares)
        super().connect(address)

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ANN401
        """Send all of it."""
        self.settimeout(self.deadline.left_s())
        super().sendall(data, flags)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return at most `size` of the bytes received; empty: the other end has closed the connection."""
        if self._used == len(self._ahead):
            self.settimeout(self.deadline.left_s())
            self._ahead, self._used = super().recv(max(size, READ_BYTES), flags), 0
        part = self._ahead[self._used : self._used + size]
        self._used += len(part)
        return part
