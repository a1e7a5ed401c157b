"""Commands to the stores of a stage, each on a connection of its own (I/O)."""

from collections.abc import Sequence
from typing import Any, BinaryIO

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.http_ask import exchange, read_line

ORDER_S = 5.0
"""Of a change, which may take a while on a busy machine."""


def memcached(address: str, port: int, words: bytes) -> bytes:
    """Give Memcached a command; return all that it answers. Raises ProgramError."""
    # How long an answer is depends on the command. So one more follows, whose answer is known: `mn`
    # does nothing but say MN (Memcached's doc/protocol.txt, meta no-op).
    return exchange(address, port, words + b"\r\nmn\r\n", _read_to_mn, timeout_s=ORDER_S)


def redis(address: str, port: int, parts: Sequence[str]) -> Any:  # noqa: ANN401 - each command's own
    """Give Redis a command; return its answer. Raises ProgramError where there is none, or an error."""
    once = Retry(NoBackoff(), 0)
    try:
        with Redis(address, port, socket_timeout=ORDER_S, retry=once) as client:
            return client.execute_command(*parts)
    except RedisError as error:
        raise ProgramError(f"{address}:{port} does not answer {' '.join(parts)}: {error}") from None


def _read_to_mn(stream: BinaryIO) -> bytes:
    answer = b""
    while (part := read_line(stream)) != b"MN\r\n":
        answer += part
    return answer
