"""One Memcached server, with one deadline for each call. I/O only.

A call looks up the name, connects, asks and reads within `timeout_s` in all,
however the server or the resolver behaves: one that sends a byte a second,
accepts and never answers, or answers with something else is `Unavailable`. A
call for many keys is one for each part of them, and ends with the first that
fails. The protocol itself is pymemcache's.

The connection is kept. Where the server has closed it meanwhile (a restart),
the call connects again and loses nothing. Every address of a name is tried.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import TypeVar

from pymemcache.client.base import Client
from pymemcache.exceptions import (
    MemcacheError,
    MemcacheIllegalInputError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownError,
)

from steelyard_protocol import peer_address
from steelyard_protocol.deadline import Deadline, DeadlineSockets
from steelyard_protocol.dns_lookup import DnsLookup
from steelyard_protocol.setting_values import Address

Answer = TypeVar("Answer")

# Memcached answers within a millisecond; whoever takes this long is as good as away.
TIMEOUT_S = 0.25

# To read ten thousand values takes 0.1 s, on a busy machine several times as much. In questions of this many
# keys, each with a deadline of its own, a server that answers is not taken for one that does not.
# What is written is sent whole before an answer is read: for so many answers the connection has room.
KEYS_AT_ONCE = 500

# And of this many bytes, unless one value has more: 20 ms at 100 Mbit/s.
BYTES_AT_ONCE = 2**18

CONNECTION_LOST = (ConnectionError, MemcacheUnexpectedCloseError)
UNREACHABLE = (OSError, MemcacheUnexpectedCloseError)

# ValueError (of which UnicodeError, for an impossible host name, is one) and LookupError are what
# pymemcache raises where an answer is not Memcached's.
FAILURES = (MemcacheError, OSError, ValueError, LookupError)

KEY = re.compile(r"[!-~]{1,250}")

STORED = {b"STORED": True, b"NOT_STORED": False, b"EXISTS": False, b"NOT_FOUND": False}
"""What Memcached answers to `add` and `cas`."""


class Unavailable(Exception):
    """The server did not do what it was asked to; the message says why."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A value, and the server's mark of it (Memcached's "cas unique"), which every write changes."""

    value: bytes
    mark: bytes


class MemcachedClient:
    """One server; may be used by several threads, one after the other.

    Every method but `close` raises `Unavailable` where the server has not done it within `timeout_s`.
    """

    def __init__(
        self,
        address: Address,
        *,
        timeout_s: float = TIMEOUT_S,
        lookup: Callable[[float], list[Address]] | None = None,
    ) -> None:
        self.name = peer_address.join(*address)
        self._lookup = lookup or DnsLookup(address)
        self._timeout_s = timeout_s
        self._deadline = Deadline(time.monotonic)
        self._lock = threading.Lock()
        self._connection: _Connection | None = None
        self._failures = 0

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values of the keys that are there."""
        values: dict[str, bytes] = {}
        for some in _parts(keys):
            values |= self._call(methodcaller("get_many", some))
        return values

    def seen(self, keys: Sequence[str]) -> dict[str, Seen]:
        """Return the values of the keys that are there, with their marks."""
        values: dict[str, Seen] = {}
        for some in _parts(keys):
            answer = self._call(methodcaller("gets_many", some))
            values |= {key: Seen(value, mark) for key, (value, mark) in answer.items()}
        return values

    def put(self, key: str, value: bytes, *, ttl_s: int) -> None:
        """Store a value for `ttl_s` seconds, whatever was there."""
        # Without noreply=False a full or broken Memcached would go unnoticed.
        if not self._call(lambda server: server.set(key, value, expire=ttl_s, noreply=False)):
            raise Unavailable("it did not store the value")

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: int) -> None:
        """Store values by key for `ttl_s` seconds, whatever was there."""
        for part in _bounded(values):
            if self._call(methodcaller("set_many", part, expire=ttl_s, noreply=False)):
                raise Unavailable("it did not store every value")

    def append(self, key: str, value: bytes, *, ttl_s: int) -> None:
        """Append to what is there; where nothing is, store the value for `ttl_s` seconds."""

        def write(server: _Connection) -> object:
            # Somebody else may store it between the first two.
            return (
                server.append(key, value, noreply=False)
                or server.add(key, value, expire=ttl_s, noreply=False)
                or server.append(key, value, noreply=False)
            )

        if not self._call(write):
            raise Unavailable("it did not append the value")

    def touch(self, key: str, *, ttl_s: int) -> bool:
        """Give a value `ttl_s` seconds from now on; tell whether it is there."""
        return self._call(lambda server: bool(server.touch(key, ttl_s, noreply=False)))

    def replace_many(
        self,
        values: Mapping[str, bytes],
        before: Mapping[str, Seen],
        *,
        ttl_s: int,
        check: Callable[[], None] = lambda: None,
    ) -> dict[str, bool | str]:
        """Store values by key in the place of what was there `before`, of nothing where that has none.

        Returns by key whether that was still there, or why the server does not take the value. `check` is
        called right before each attempt to write; what it raises ends the call.
        """
        answers: dict[str, bool | str] = {}
        for part in _bounded(values):

            def write(server: _Connection, part: Mapping[str, bytes] = part) -> list[bool | str]:
                commands = [
                    _replacing(server.check_key(key, b""), value, before.get(key), ttl_s)
                    for key, value in part.items()
                ]
                check()
                return [_stored(line) for line in server.lines(commands)]

            answers |= zip(part, self._call(write), strict=True)
        return answers

    def close(self) -> None:
        """Close the connection, once a call that is under way has ended."""
        with self._lock:
            self._disconnect()

    def _call(self, ask: "Callable[[_Connection], Answer]") -> Answer:
        began_s = time.monotonic()
        if not self._lock.acquire(timeout=self._timeout_s):
            raise Unavailable("timed out")
        try:
            self._deadline.start(self._timeout_s - (time.monotonic() - began_s))
            answer = self._answer(ask)
        except FAILURES as error:
            # What else comes on that connection answers no question of ours.
            self._disconnect()
            self._failures += 1
            raise Unavailable(_reason(error)) from error
        else:
            self._failures = 0
            return answer
        finally:
            self._lock.release()

    def _answer(self, ask: "Callable[[_Connection], Answer]") -> Answer:
        if self._connection is not None:
            try:
                return ask(self._connection)
            except CONNECTION_LOST:
                # The server closed a connection that lay idle, or was restarted: that is no failure yet.
                self._disconnect()
        addresses = self._lookup(self._deadline.left_s())
        # After a failure the next address is the first: one that hangs must not hide the others.
        first = self._failures % len(addresses)
        *others, last = addresses[first:] + addresses[:first]
        for position, address in enumerate(others):
            try:
                return ask(self._connect(address, shares=len(addresses) - position))
            except UNREACHABLE:
                self._disconnect()
        return ask(self._connect(last, shares=1))

    def _connect(self, address: Address, *, shares: int) -> "_Connection":
        self._connection = _Connection(
            address,
            # Each socket call has what is left of the deadline, whatever is said here.
            connect_timeout=self._timeout_s,
            timeout=self._timeout_s,
            no_delay=True,
            socket_module=DeadlineSockets(self._deadline, connect_shares=shares),
        )
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Connection(Client):  # type: ignore[misc]
    """pymemcache's connection, and several commands at a time, which it has for one kind of command alone."""

    def check_key(self, key: str, key_prefix: bytes) -> bytes:
        """Return a key as bytes, at a third of what pymemcache takes: of ten thousand in a tick."""
        if KEY.fullmatch(key) is None:
            raise MemcacheIllegalInputError(f"this is no key of Memcached's: {key[:300]!r}")
        return key_prefix + key.encode()

    def lines(self, commands: Sequence[bytes]) -> list[bytes]:
        """Send commands, and return the line that answers each."""
        if self.sock is None:
            self._connect()
        self.sock.sendall(b"".join(commands))
        said = b""
        while said.count(b"\r\n") < len(commands):
            part = self.sock.recv(65536)
            if not part:
                raise MemcacheUnexpectedCloseError
            said += part
        *lines, rest = said.split(b"\r\n")
        if rest or len(lines) > len(commands):
            raise MemcacheUnknownError(b"more answers than questions")
        return lines


def _replacing(key: bytes, value: bytes, before: Seen | None, ttl_s: int) -> bytes:
    command, mark = ("add", b"") if before is None else ("cas", b" " + before.mark)
    return b"%s %s 0 %d %d%s\r\n%s\r\n" % (command.encode(), key, ttl_s, len(value), mark, value)


def _stored(line: bytes) -> bool | str:
    if line in STORED:
        return STORED[line]
    if line.startswith(b"SERVER_ERROR"):
        return (
            line.removeprefix(b"SERVER_ERROR").decode(errors="replace").strip()
            or "it did not store the value"
        )
    raise MemcacheUnknownError(line[:32])


def _parts(keys: Sequence[str]) -> Iterator[list[str]]:
    for first in range(0, len(keys), KEYS_AT_ONCE):
        yield list(keys[first : first + KEYS_AT_ONCE])


def _bounded(values: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    part: dict[str, bytes] = {}
    size = 0
    for key, value in values.items():
        size += len(value)
        if part and (len(part) == KEYS_AT_ONCE or size > BYTES_AT_ONCE):
            yield part
            part, size = {}, len(value)
        part[key] = value
    if part:
        yield part


def _reason(error: Exception) -> str:
    # pymemcache quotes the server's words as they came, in bytes.
    words = [part.decode(errors="replace") for part in error.args if isinstance(part, bytes)]
    return " ".join((" ".join(words) or str(error)).split()) or type(error).__name__
