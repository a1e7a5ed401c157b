"""A load that is read while it goes on: started, counted, stopped; and its own process (I/O).

The process is the open loop with numbered requests, run by this file's path with the arguments of `task`; it
ends by itself, or when it is killed.

It sends a lost request again only when no program can have read it. RFC 9112, section 9.3.1, lets a client
repeat what was lost on a kept connection. A repeat would hide the requests that die with a killed worker, and
its client would have to know that they do no harm twice. The kernel tells the two apart: a peer that closes
before the request reaches it answers it with a reset, and so does one that dies with the request unread; the
end of a connection whose peer has read everything acknowledges all that was sent (RFC 9293, section 3.10.7;
tcp(7), TCP_INFO).
"""

import socket
import struct
from pathlib import Path

from steelyard_loadtest.generators import open_loop
from steelyard_loadtest.generators.job import Task
from steelyard_loadtest.generators.load import Recorded
from steelyard_loadtest.generators.pool import Connection, Pool
from steelyard_loadtest.generators.questions import Numbered, Pacer
from steelyard_loadtest.generators.tally import Request
from steelyard_loadtest.machine.errors import ProgramError

TIMEOUT_S = 10.0
"""So long a request may take: a person has left by then."""

MOST_S = 7200.0
"""Every load has an end; a whole run takes a quarter of this."""

START_S = 60.0
"""A Python with all that it imports is there within a second; on a loaded machine in several."""

INFO = struct.Struct("=B23xI")
"""tcpi_state and tcpi_unacked in linux/tcp.h's struct tcp_info."""

CLOSE_WAIT = 8
"""The state after the other side's end (net/tcp_states.h); a reset leaves another one, and nothing to be
acknowledged."""


class Load:
    """`rate_per_s` checked requests a second to a URL, from now on until `stop`. Raises ProgramError."""

    def __init__(self, url: str, rate_per_s: float, folder: Path) -> None:
        self.requests: list[Request] = []
        """Those that have ended, in the order of their ends, as far as `read` has come."""
        self._pacer = Pacer(rate_per_s=rate_per_s, seconds=MOST_S)
        task = Task(
            url=url, level=rate_per_s, seconds=MOST_S, warm_up_s=0.0, timeout_s=TIMEOUT_S, finish_s=0.0,
            folder=folder,
        )  # fmt: skip
        self._process = Recorded(task, Path(__file__), "the load")
        self.began_s = self._process.wait(START_S)
        """When the first request was due, on time.monotonic's clock."""

    def read(self) -> list[Request]:
        """Take and return what has ended since the last call. Raises ProgramError when the load has ended."""
        if self._process.poll():
            raise ProgramError(f"the load ended: {self._process.child.last_words()}")
        ended = self._process.requests()
        self.requests += ended
        return ended

    def complete(self, until_s: float) -> bool:
        """Say whether all that were due before a moment have ended, as far as was read."""
        due = self._pacer.due_by(until_s - self.began_s)
        while due and self.began_s + self._pacer.due_s(due - 1) >= until_s:
            due -= 1
        return sum(one.due_s < until_s for one in self.requests) >= due

    def over(self, until_s: float, now_s: float) -> bool:
        """Say whether what was due before a moment has ended, or has had the time to."""
        return now_s >= until_s and (now_s > until_s + TIMEOUT_S + 1 or self.complete(until_s))

    def stop(self) -> None:
        """End it at once; what had ended by then is read."""
        self._process.stop()
        self.requests += self._process.requests()


class StrictConnection(Connection):
    """One whose lost request counts as lost when the other side had taken it."""

    def __init__(self, owner: Pool) -> None:
        super().__init__(owner)
        self._taken = False

    @property
    def was_stale(self) -> bool:
        """Say whether a request that was lost with it was never read."""
        return super().was_stale and not self._taken

    def eof_received(self) -> None:
        """Note whether everything sent had arrived when the other side closed; close too."""
        transport = self._transport
        if transport is not None and not transport.get_write_buffer_size():
            end: socket.socket = transport.get_extra_info("socket")
            info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO.size)
            self._taken = INFO.unpack(info) == (CLOSE_WAIT, 0)


if __name__ == "__main__":
    open_loop.main(questions=Numbered, connection=StrictConnection)
