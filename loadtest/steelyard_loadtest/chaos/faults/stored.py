"""What lies in the stage's Memcached, read and written past all clients (I/O)."""

from steelyard_agent import wire

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.stage.stage import Stage

UPSTREAM = "web"
TABLE = wire.weights_key(UPSTREAM)
REPORT = wire.traffic_key(UPSTREAM, "edge-1")

LIVES_S = 60
"""What is put there goes by itself, should a fault not be undone."""


def sample(peer: str) -> str:
    """Return the key of a server's sample."""
    return wire.sample_key(UPSTREAM, peer)


def found(stage: Stage, key: str) -> bytes | None:
    """Return a value; None when there is none."""
    head, _, rest = stage.memcached_command(f"get {key}").partition(b"\r\n")
    return rest[: int(head.split()[3])] if head.startswith(b"VALUE ") else None


def get(stage: Stage, key: str) -> bytes:
    """Return a value. Raises ProgramError when there is none."""
    value = found(stage, key)
    if value is None:
        raise ProgramError(f"memcached has no {key}")
    return value


def put(stage: Stage, key: str, value: bytes) -> None:
    """Write a value. Raises ProgramError when it is not stored."""
    head = f"set {key} 0 {LIVES_S} {len(value)}\r\n".encode()
    answer = stage.memcached_command(head + value)
    if not answer.startswith(b"STORED"):
        raise ProgramError(f"memcached does not store {key}: {answer[:100]!r}")


def figure(stage: Stage, name: str) -> int:
    """Return one of Memcached's statistics. Raises ProgramError when there is no such one."""
    for line in stage.memcached_command("stats").splitlines():
        words = line.split()
        if words[:2] == [b"STAT", name.encode()]:
            return int(words[2])
    raise ProgramError(f"memcached tells no {name}")
