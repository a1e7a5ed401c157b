"""What nginx and the leader tell of a fault while it lasts (I/O)."""

import json
from typing import Any

from steelyard_loadtest.chaos.faults.stored import UPSTREAM
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.stage.stage import Stage


def served(stage: Stage) -> dict[str, Any]:
    """Return what nginx's status says of the upstream. Raises ProgramError when it does not answer."""
    status: dict[str, Any] | None = stage.status()
    if status is None:
        raise ProgramError("nginx's status page does not answer")
    upstream: dict[str, Any] = status["upstreams"][UPSTREAM]
    return upstream


def refused_tables(stage: Stage, reason: str) -> int:
    """Return how many tables nginx has refused for this reason."""
    return int(served(stage)["refused"].get(reason, 0))


def overview(stage: Stage) -> dict[str, Any]:
    """Return what the leader says of the upstream. Raises ProgramError when it does not."""
    status, body = stage.api("GET", f"/v1/upstreams/{UPSTREAM}")
    if status != 200:
        raise ProgramError(f"the leader answers {status} for {UPSTREAM}: {body[:300]!r}")
    document: dict[str, Any] = json.loads(body)
    return document


def refused_values(stage: Stage, reason: str) -> int:
    """Return how many values the leader has refused for this reason."""
    return int(overview(stage)["refused"]["count"].get(reason, 0))


def change(stage: Stage, method: str, path: str, document: object) -> None:
    """Ask the leader for a change. Raises ProgramError when it is not made."""
    status, body = stage.api(method, f"/v1/upstreams/{UPSTREAM}{path}", document)
    if status not in (200, 201, 204):
        raise ProgramError(f"the leader answers {status} to {method} {path}: {body[:300]!r}")
