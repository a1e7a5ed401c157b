"""A connection that sends a lost request again only when no program can have read it.

RFC 9112, section 9.3.1, lets a client repeat what was lost on a kept connection. A
repeat would hide the requests that die with a killed worker, and its client would
have to know that they do no harm twice. The kernel tells the two apart: a peer
that closes before the request reaches it answers it with a reset, and so does one
that dies with the request unread; the end of a connection whose peer has read
everything acknowledges all that was sent (RFC 9293, section 3.10.7; tcp(7), TCP_INFO).
"""

import socket
import struct

from steelyard_loadtest.lab.generators.connection import Connection, Owner

INFO = struct.Struct("=B23xI")
"""tcpi_state and tcpi_unacked in linux/tcp.h's struct tcp_info."""

CLOSE_WAIT = 8
"""The state after the other side's end (net/tcp_states.h); a reset leaves another one, and nothing to be
acknowledged."""


class Strict(Connection):
    """One whose lost request counts as lost when the other side had taken it."""

    def __init__(self, owner: Owner) -> None:
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
