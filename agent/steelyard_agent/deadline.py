"""Sockets that keep to one deadline for all they do together. I/O only.

A timeout is for one call: a peer that sends a byte now and then is never late,
and holds its reader for ever. Here the time for connecting, sending and
reading is one sum.
"""

import socket
from collections.abc import Callable
from typing import Any


class Deadline:
    """What is left of a time; `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until_s = 0.0

    def start(self, seconds: float) -> None:
        """Begin anew."""
        self._until_s = self._clock() + seconds

    def left_s(self) -> float:
        """Return the seconds that are left; raise TimeoutError when there are none."""
        left_s = self._until_s - self._clock()
        if left_s <= 0:
            raise TimeoutError("timed out")
        return left_s


class Sockets:
    """The socket module, as pymemcache asks for it, with sockets that keep to a deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the module has)
        return getattr(socket, name)

    def socket(self, *arguments: int) -> "Socket":
        """Return a socket."""
        made = Socket(*arguments)
        made.deadline = self._deadline
        return made


class Socket(socket.socket):
    """A socket whose calls all end at `deadline`."""

    deadline: Deadline

    def connect(self, address: Any) -> None:  # noqa: ANN401 (a socket's signature)
        """Connect."""
        self.settimeout(self.deadline.left_s())
        super().connect(address)

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ANN401
        """Send all of it."""
        self.settimeout(self.deadline.left_s())
        super().sendall(data, flags)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return what has come."""
        self.settimeout(self.deadline.left_s())
        return super().recv(size, flags)
