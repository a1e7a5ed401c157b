"""HAProxy's runtime socket: commands in, answers out, all within one deadline. I/O only.

Each line of commands has its own connection, and HAProxy closes it after the answer. Its master process does
so only once our side is closed (management guide, 9.3). For other sockets our side stays open: a TCP proxy
before the socket may take a closed side for the end. A socket that hangs, drips or never ends is a
`HaproxyFault` at the deadline, whatever it has sent by then.
"""

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from steelyard_protocol import peer_address
from steelyard_protocol.deadline import Deadline, DeadlineSockets
from steelyard_protocol.dns_lookup import DnsLookup
from steelyard_protocol.setting_values import Address

from steelyard_reporter.haproxy import show_stat
from steelyard_reporter.haproxy.show_stat import HaproxyFault, Process

# `show stat` takes 450 bytes a server; no HAProxy has a hundred thousand.
MOST_BYTES = 64 * 1024 * 1024

_CHUNK = 256 * 1024

_UNKNOWN = b"Unknown command"


def line(commands: Sequence[str], prefix: str) -> str:
    """Return commands as one line; the master's `prefix` (`@!PID `) is one command's alone."""
    return ";".join(f"{prefix}{command}" for command in commands)


class RuntimeSocket:
    """The socket of one HAProxy process, or of the master of several."""

    def __init__(
        self,
        address: Address | Path,
        deadline: Deadline,
        *,
        lookup: Callable[[float], list[Address]] | None = None,
    ) -> None:
        self.name = str(address) if isinstance(address, Path) else peer_address.join(*address)
        self._path = str(address) if isinstance(address, Path) else None
        self._lookup = None if isinstance(address, Path) else lookup or DnsLookup(address)
        self._deadline = deadline
        self._sockets = DeadlineSockets(deadline)
        self._is_masters = False
        self._hidden: set[str] = set()

    def read(self, backends: Sequence[str]) -> list[Process]:
        """Return its processes, with the servers of these backends; raise `HaproxyFault`."""
        if not self._is_masters:
            answer = self._ask_all("", backends)
            self._is_masters = show_stat.is_masters(answer[0])
            if not self._is_masters:
                return [self._process(answer, backends, prefix="", ending=False)]
        workers = show_stat.parse_workers(self.ask("show proc"))
        if not workers:
            self._is_masters = False
            raise HaproxyFault(f"the master process at {self.name} has no worker: see HAProxy's log")
        processes = []
        for pid, ending in workers:
            prefix = f"@!{pid} "
            answers = self._ask_all(prefix, backends)
            if not show_stat.is_gone(answers[0]):
                processes.append(self._process(answers, backends, prefix=prefix, ending=ending))
        return processes

    def ask(self, commands: str) -> str:
        """Return the answer to a line of commands; raise `HaproxyFault`."""
        try:
            with self._connected() as connection:
                connection.sendall(f"{commands}\n".encode())
                if self._is_masters:
                    connection.shutdown(socket.SHUT_WR)
                return self._all_of(connection)
        except (OSError, UnicodeError) as error:  # the latter: an impossible host name
            raise HaproxyFault(f"{self.name} {_why(error)}") from None

    def _connected(self) -> socket.socket:
        if self._lookup is None:
            return self._connect(socket.AF_UNIX, self._path)
        # HAProxy may listen on only one of a host's addresses.
        *others, last = self._lookup(self._deadline.left_s())
        for address in others:
            with suppress(OSError):
                return self._connect(_family(address), address)
        return self._connect(_family(last), last)

    def _connect(self, family: int, address: str | Address | None) -> socket.socket:
        connection = self._sockets.socket(family, socket.SOCK_STREAM)
        try:
            connection.connect(address)
        except OSError:
            connection.close()
            raise
        return connection

    def _all_of(self, connection: socket.socket) -> str:
        pieces, size = [], 0
        while piece := connection.recv(_CHUNK):
            pieces.append(piece)
            size += len(piece)
            if not self._is_masters and piece.endswith(b"\n\n") and pieces[0].startswith(_UNKNOWN):
                break  # the master leaves the connection open
            if size > MOST_BYTES:
                raise HaproxyFault(f"{self.name} sends more than {MOST_BYTES} bytes: it is not HAProxy's")
        return b"".join(pieces).decode("utf-8", "replace")

    def _ask_all(self, prefix: str, backends: Sequence[str]) -> list[str]:
        """Return the answers to `show info` and to `show stat` of each backend, asked in one breath."""
        which = ("-1" if backend in self._hidden else backend for backend in backends)
        commands = ["show info", *(f"show stat {each} 6 -1" for each in which)]
        text = self.ask(line(commands, prefix))
        *answers, rest = text.split("\n\n")
        if len(answers) != len(commands) or rest:
            return [text]
        hidden = {
            backend
            for backend, answer in zip(backends, answers[1:], strict=True)
            if show_stat.is_a_frontends(answer)
        }
        if hidden <= self._hidden:
            return answers
        # HAProxy shows only the first proxy of a name: read such a backend in the list of all.
        self._hidden |= hidden
        return self._ask_all(prefix, backends)

    def _process(
        self, answers: Sequence[str], backends: Sequence[str], *, prefix: str, ending: bool
    ) -> Process:
        info = show_stat.parse_info(answers[0], self.name)
        if len(answers) != 1 + len(backends):
            raise HaproxyFault(f"{self.name} broke off its answer: HAProxy is ending, or is being replaced")
        return Process(
            pid=info.pid,
            uptime_s=info.uptime_s,
            version=info.version,
            groups=info.groups,
            ending=ending,
            via=self.name,
            prefix=prefix,
            servers={
                backend: show_stat.parse_stat(text, backend, self.name)
                for backend, text in zip(backends, answers[1:], strict=True)
            },
        )


def _family(address: Address) -> int:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def _why(error: OSError | UnicodeError) -> str:
    if isinstance(error, TimeoutError):
        return "has not answered in time: HAProxy hangs, or another program listens there"
    if isinstance(error, PermissionError):
        return (
            "must not be opened by this user: add it to the socket's group, "
            "or write `group` and `mode 660` behind `stats socket` in haproxy.cfg"
        )
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return "is not there: is HAProxy running, with this `stats socket` in haproxy.cfg?"
    return f"does not answer: {getattr(error, 'strerror', None) or error}"
