"""Questions of faults to a stage: the leader, nginx's and the leader's status, values in Memcached (I/O)."""

import json
from typing import Any

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_protocol import wire

from steelyard_resilience.chaos.faults.forgery import text_of
from steelyard_resilience.stage.hosts import CONTROLLERS, UPSTREAM
from steelyard_resilience.stage.stage import Stage

TABLE = wire.weights_key(UPSTREAM)
REPORT = wire.traffic_key(UPSTREAM, "edge-1")
SAMPLE = wire.sample_key(UPSTREAM, "server-1")

LIVES_S = 60
"""Values put into Memcached expire after this time, in case a fault is not undone."""


def leader(stage: Stage) -> str:
    """Return the name of the leading controller. Raises ProgramError when there is none."""
    name = stage.leader()
    if name is None:
        raise ProgramError("no controller leads")
    return name


def daemon_of(stage: Stage, name: str) -> str:
    """Return the name of a fault's daemon; `leader` and `standby` are resolved by the current roles.

    Raises ProgramError when no controller leads.
    """
    if name not in ("leader", "standby"):
        return name
    leading = leader(stage)
    return next(one for one in CONTROLLERS if (one == leading) == (name == "leader"))


def nginx_status(stage: Stage) -> dict[str, Any]:
    """Return the upstream in nginx's status. Raises ProgramError when nginx does not answer."""
    status: dict[str, Any] | None = stage.status()
    if status is None:
        raise ProgramError("nginx's status page does not answer")
    upstream: dict[str, Any] = status["upstreams"][UPSTREAM]
    return upstream


def change(stage: Stage, method: str, path: str, document: object) -> None:
    """Ask the leader for a change. Raises ProgramError if it refuses."""
    stage.api(method, f"/v1/upstreams/{UPSTREAM}{path}", document)


def value_of(stage: Stage, key: str) -> bytes | None:
    """Return a value in Memcached, without any of our clients; None if there is none."""
    head, _, rest = stage.memcached_command(f"get {key}").partition(b"\r\n")
    return rest[: int(head.split()[3])] if head.startswith(b"VALUE ") else None


def get(stage: Stage, key: str) -> bytes:
    """Return a value in Memcached. Raises ProgramError when there is none."""
    value = value_of(stage, key)
    if value is None:
        raise ProgramError(f"memcached has no {key}")
    return value


def document(stage: Stage, key: str) -> dict[str, Any]:
    """Return a JSON value in Memcached, signed or not. Raises ProgramError when there is none."""
    value = get(stage, key)
    read: dict[str, Any] = json.loads(value if value.startswith(b"{") else text_of(value))
    return read


def put(stage: Stage, key: str, value: bytes) -> None:
    """Write a value to Memcached. Raises ProgramError if Memcached does not store it."""
    head = f"set {key} 0 {LIVES_S} {len(value)}\r\n".encode()
    answer = stage.memcached_command(head + value)
    if not answer.startswith(b"STORED"):
        raise ProgramError(f"memcached does not store {key}: {answer[:100]!r}")
