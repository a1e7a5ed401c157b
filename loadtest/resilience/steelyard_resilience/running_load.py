"""A load whose requests can be read while it runs: start, count, stop; and its own process (I/O).

The process is the open loop with numbered requests. It runs this file by its path, with the arguments of
`task`. It ends by itself, or when it is killed.

It repeats a lost request only if no program can have read it. RFC 9112, section 9.3.1, lets a client repeat
any request lost on a kept connection. Such a repeat would hide the requests that die with a killed worker,
and the client would have to know that they are safe to repeat. The kernel distinguishes the two cases. A peer
that closes before the request arrives answers with a reset, and so does a peer that dies with the request
unread. A peer that has read everything acknowledges it before its connection ends (RFC 9293, section 3.10.7;
tcp(7), TCP_INFO).
"""

import socket
import struct
from pathlib import Path

from steelyard_loadtest.generators import open_loop
from steelyard_loadtest.generators.job import Task
from steelyard_loadtest.generators.load import Recorded
from steelyard_loadtest.generators.open_loop_requests import Numbered
from steelyard_loadtest.generators.pool import Connection, Pool
from steelyard_loadtest.generators.schedule import Pacer
from steelyard_loadtest.generators.tally import Request
from steelyard_loadtest.machine.errors import ProgramError

TIMEOUT_S = 10.0
"""Time limit of a request: a person has left by then."""

MOST_S = 7200.0
"""Upper limit of a load's length; a whole run takes a quarter of it."""

START_S = 60.0
"""Python starts and imports within a second; on a loaded machine in several."""

INFO = struct.Struct("=B23xI")
"""tcpi_state and tcpi_unacked in linux/tcp.h's struct tcp_info."""

CLOSE_WAIT = 8
"""The state after the other side has closed (net/tcp_states.h). A reset leaves another state, and nothing to
acknowledge."""


class Load:
    """`rate_per_s` checked requests a second to a URL, from now until `stop`. Raises ProgramError."""

    def __init__(self, url: str, rate_per_s: float, folder: Path) -> None:
        self.requests: list[Request] = []
        """Ended requests that `read` has taken, in the order in which they ended."""
        self._pacer = Pacer(rate_per_s=rate_per_s, seconds=MOST_S)
        task = Task(
            url=url, level=rate_per_s, seconds=MOST_S, warm_up_s=0.0, timeout_s=TIMEOUT_S, finish_s=0.0,
            folder=folder,
        )  # fmt: skip
        self._process = Recorded(task, Path(__file__), "the load")
        self.began_s = self._process.wait(START_S)
        """Due time of the first request, on time.monotonic's clock."""

    def read(self) -> list[Request]:
        """Take and return the requests that ended since the last call. Raises ProgramError after its end."""
        if self._process.poll():
            raise ProgramError(f"the load ended: {self._process.child.last_words()}")
        ended = self._process.requests()
        self.requests += ended
        return ended

    def complete(self, until_s: float) -> bool:
        """Return whether all requests due before a moment have ended and been read."""
        due = self._pacer.due_by(until_s - self.began_s)
        while due and self.began_s + self._pacer.due_s(due - 1) >= until_s:
            due -= 1
        return sum(one.due_s < until_s for one in self.requests) >= due

    def over(self, until_s: float, now_s: float) -> bool:
        """Return whether the requests due before a moment have ended, or have had the time to."""
        return now_s >= until_s and (now_s > until_s + TIMEOUT_S + 1 or self.complete(until_s))

    def stop(self) -> None:
        """End it at once, and read the requests that had ended by then."""
        self._process.stop()
        self.requests += self._process.requests()


class StrictConnection(Connection):
    """A connection whose lost request counts as lost if the other side had read it."""

    def __init__(self, owner: Pool) -> None:
        super().__init__(owner)
        self._taken = False

    @property
    def was_stale(self) -> bool:
        """Return whether the other side never read the request lost with this connection."""
        return super().was_stale and not self._taken

    def eof_received(self) -> None:
        """Note whether all sent bytes had arrived when the other side closed; close too."""
        transport = self._transport
        if transport is not None and not transport.get_write_buffer_size():
            end: socket.socket = transport.get_extra_info("socket")
            info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO.size)
            self._taken = INFO.unpack(info) == (CLOSE_WAIT, 0)


if __name__ == "__main__":
    open_loop.main(requests=Numbered, connection=StrictConnection)
