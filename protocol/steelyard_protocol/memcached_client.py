"""One Memcached server, with one deadline for each call. I/O only.

A call resolves the name, connects, asks and reads within `timeout_s` in all,
however the server or the resolver behaves. A server that sends a byte a second,
accepts and never answers, or answers with something else is `Unavailable`. A
call for many keys consists of parts, each with its own deadline, and ends with
the first failed part. pymemcache speaks the protocol itself. Only commands with
many keys are written here, because it calls several functions for each key.

The connection is kept. If the server has closed it (a restart), the call
connects again and loses nothing. Every address of a name is tried.
"""

import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import methodcaller
from typing import NamedTuple, TypeVar

from pymemcache.client.base import Client
from pymemcache.exceptions import (
    MemcacheError,
    MemcacheIllegalInputError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownError,
)

from steelyard_protocol import memcached_answer, peer_address
from steelyard_protocol.deadline import READ_BYTES, Deadline, DeadlineSockets
from steelyard_protocol.dns_lookup import DnsLookup
from steelyard_protocol.setting_values import Address

Answer = TypeVar("Answer")

# Memcached answers within a millisecond; a server that takes this long is as good as unreachable.
TIMEOUT_S = 0.25

# Reading ten thousand values takes 0.1 s, and several times that on a busy machine. Each question has at most
# this many keys and its own deadline, so that a slow server does not count as unreachable. A write is sent
# whole before its answers are read: the connection has room for the answers to this many keys.
KEYS_AT_ONCE = 500

# And of this many bytes, unless one value has more: 20 ms at 100 Mbit/s.
BYTES_AT_ONCE = 2**18

CONNECTION_LOST = (ConnectionError, MemcacheUnexpectedCloseError)
UNREACHABLE = (OSError, MemcacheUnexpectedCloseError)

# pymemcache raises ValueError and LookupError for an answer that is not Memcached's. UnicodeError, for an
# impossible host name, is a ValueError.
FAILURES = (MemcacheError, OSError, ValueError, LookupError)

KEY = re.compile(rf"[!-~]{{1,{memcached_answer.LONGEST_KEY}}}")

STORED = {b"STORED": True, b"NOT_STORED": False, b"EXISTS": False, b"NOT_FOUND": False}
"""Memcached's answers to `add` and `cas`."""


class Unavailable(Exception):
    """The server did not answer as asked; the message names the reason."""


# The agent imports this module, and does without msgspec, which takes 7 MB.
class Seen(NamedTuple):
    """A value and the server's mark of it (Memcached's "cas unique"), which changes at every write."""

    value: bytes
    mark: bytes


class MemcachedClient:
    """One server; several threads may use it, one after the other.

    Every method but `close` raises `Unavailable` if the server does not answer within `timeout_s`.
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
        """Return the values of the existing keys."""
        values: dict[str, bytes] = {}
        for some in _parts(keys):
            answer = self._call(methodcaller("read_values", "get", some))
            values.update(zip(answer.keys, answer.values, strict=True))
        return values

    def seen(self, keys: Sequence[str]) -> dict[str, Seen]:
        """Return the values of the existing keys, with their marks."""
        values: dict[str, Seen] = {}
        for some in _parts(keys):
            answer = self._call(methodcaller("read_values", "gets", some))
            seen = map(Seen, answer.values, map(str.encode, answer.marks))
            values.update(zip(answer.keys, seen, strict=True))
        return values

    def put(self, key: str, value: bytes, *, ttl_s: int) -> None:
        """Store a value for `ttl_s` seconds, in place of any other."""
        # Without noreply=False a full or broken Memcached would go unnoticed.
        if not self._call(lambda server: server.set(key, value, expire=ttl_s, noreply=False)):
            raise Unavailable("it did not store the value")

    def put_many(self, values: Mapping[str, bytes], *, ttl_s: int) -> dict[str, str]:
        """Store values by key for `ttl_s` seconds, in place of any others.

        Returns by key why the server refuses a value; the key then has no value any more.
        """
        # pymemcache's set_many raises at the first refused value, and so hides which ones were stored.
        refused: dict[str, str] = {}
        for part in _bounded(values):

            def write(server: _Connection, part: Mapping[str, bytes] = part) -> list[bool | str]:
                checked = zip(server.check_keys(part), part.values(), strict=True)
                return _stored(server.lines([_setting(key, value, ttl_s) for key, value in checked]))

            for key, answer in zip(part, self._call(write), strict=True):
                if isinstance(answer, str):
                    refused[key] = answer
                elif not answer:
                    raise Unavailable("it did not store every value")
        return refused

    def append(self, key: str, value: bytes, *, ttl_s: int) -> bool:
        """Append to a value; if there is none, store the text for `ttl_s` seconds.

        Returns whether the server did; it does not once the value has Memcached's largest size.
        """
        # Somebody else may store it between the first two.
        return self._call(
            lambda server: bool(
                server.append(key, value, noreply=False)
                or server.add(key, value, expire=ttl_s, noreply=False)
                or server.append(key, value, noreply=False)
            )
        )

    def touch(self, key: str, *, ttl_s: int) -> bool:
        """Extend a value's life to `ttl_s` seconds from now; return whether it exists."""
        return self._call(lambda server: bool(server.touch(key, ttl_s, noreply=False)))

    def replace_many(
        self,
        values: Mapping[str, bytes],
        before: Mapping[str, Seen],
        *,
        ttl_s: int,
        check: Callable[[], None] = lambda: None,
    ) -> dict[str, bool | str]:
        """Store values by key if the server still holds those of `before`, or none for a key without one.

        Returns by key whether it did, or why the server refuses the value. `check` is called right before
        each attempt to write; its exceptions end the call.
        """
        answers: dict[str, bool | str] = {}
        for part in _bounded(values):

            def write(server: _Connection, part: Mapping[str, bytes] = part) -> list[bool | str]:
                checked = zip(server.check_keys(part), part.items(), strict=True)
                commands = [_replacing(key, value, before.get(name), ttl_s) for key, (name, value) in checked]
                check()
                return _stored(server.lines(commands))

            answers |= zip(part, self._call(write), strict=True)
        return answers

    def close(self) -> None:
        """Close the connection after a call under way has ended."""
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
            # Further bytes on that connection would answer no question of ours.
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
                # The server closed an idle connection, or was restarted: not a failure yet.
                self._disconnect()
        addresses = self._lookup(self._deadline.left_s())
        # After a failure the next address is tried first: one that hangs must not hide the others.
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
            # Each socket call gets the rest of the deadline, whatever this timeout is.
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
    """pymemcache's connection, with commands for many keys, which take several calls a key there."""

    def check_key(self, key: str, key_prefix: bytes = b"") -> bytes:
        """Return a key as bytes, in a third of pymemcache's time, which counts for 10,000 keys a tick.

        pymemcache 3.5, which Debian 12 has, gives no prefix.
        """
        if KEY.fullmatch(key) is None:
            raise MemcacheIllegalInputError(f"this is no key of Memcached's: {key[:300]!r}")
        return key_prefix + key.encode()

    def check_keys(self, keys: Collection[str]) -> Sequence[bytes]:
        """Return keys as bytes."""
        line = memcached_answer.joined_keys([*keys])
        return line.split(b" ") if line is not None else [self.check_key(key) for key in keys]

    def read_values(self, command: str, keys: list[str]) -> memcached_answer.Answer:
        """Return the values of the existing ones among these keys; `command` is `get` or `gets`."""
        name = command.encode()
        line = memcached_answer.joined_keys(keys) or b" ".join(self.check_keys(keys))
        if self.sock is None:
            self._connect()
        self.sock.sendall(b"%s %s\r\n" % (name, line))
        received = bytearray()
        while True:
            part = self.sock.recv(READ_BYTES)
            if not part:
                raise MemcacheUnexpectedCloseError
            received += part
            if memcached_answer.may_have_ended(received):
                answer = memcached_answer.read(bytes(received), marked=command == "gets")
                if answer.end is not None:
                    break
        if answer.end != memcached_answer.END:
            self._raise_errors(answer.end, name)
            raise MemcacheUnknownError(answer.end[:32])
        if answer.keys == keys:
            return answer._replace(keys=keys)  # These strings have their hashes already.
        if not set(keys).issuperset(answer.keys):
            raise MemcacheUnknownError(b"values of other keys")
        return answer

    def lines(self, commands: Sequence[bytes]) -> list[bytes]:
        """Send commands, and return the answer line of each."""
        if self.sock is None:
            self._connect()
        self.sock.sendall(b"".join(commands))
        answers = b""
        while answers.count(b"\r\n") < len(commands):
            part = self.sock.recv(65536)
            if not part:
                raise MemcacheUnexpectedCloseError
            answers += part
        *lines, rest = answers.split(b"\r\n")
        if rest or len(lines) > len(commands):
            raise MemcacheUnknownError(b"more answers than questions")
        return lines


def _replacing(key: bytes, value: bytes, before: Seen | None, ttl_s: int) -> bytes:
    if before is None:
        return b"add %s 0 %d %d\r\n%s\r\n" % (key, ttl_s, len(value), value)
    return b"cas %s 0 %d %d %s\r\n%s\r\n" % (key, ttl_s, len(value), before.mark, value)


def _setting(key: bytes, value: bytes, ttl_s: int) -> bytes:
    return b"set %s 0 %d %d\r\n%s\r\n" % (key, ttl_s, len(value), value)


def _stored(lines: list[bytes]) -> list[bool | str]:
    if lines.count(b"STORED") == len(lines):
        return [True] * len(lines)
    return [_is_stored(line) for line in lines]


def _is_stored(line: bytes) -> bool | str:
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
    # pymemcache quotes the server's message as bytes.
    words = [part.decode(errors="replace") for part in error.args if isinstance(part, bytes)]
    return " ".join((" ".join(words) or str(error)).split()) or type(error).__name__
