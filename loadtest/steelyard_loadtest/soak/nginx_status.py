"""What nginx's status page says of requests in flight, and of Lua's memory. Pure."""

from collections.abc import Mapping
from typing import Any

WORKER_PREFIX = "worker "


def in_flight(status: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the requests in flight by server, over all upstreams; by worker too, under `worker SLOT`.

    The one is the workers' board, the other what each worker says of itself: both must come to 0.
    """
    found: dict[str, int] = {}
    if status is None:
        return found
    for upstream in status.get("upstreams", {}).values():
        for peer in upstream.get("peers", ()):
            name = str(peer.get("id"))
            found[name] = found.get(name, 0) + int(peer.get("in_flight", 0))
    for worker in status.get("workers", ()):
        own = worker.get("in_flight") or {}
        found[f"{WORKER_PREFIX}{worker.get('slot')}"] = (
            sum(map(int, own.values())) if isinstance(own, dict) else 0
        )
    return found


def lua_bytes(status: Mapping[str, Any] | None) -> dict[int, int]:
    """Return the size of LuaJIT's heap by worker's pid, of those that tell it."""
    workers = status.get("workers", ()) if status else ()
    return {int(one["pid"]): int(one["lua_bytes"]) for one in workers if "pid" in one and "lua_bytes" in one}


def dict_free_bytes(status: Mapping[str, Any] | None) -> int | None:
    """Return the shared dict's whole free pages; None where the status does not tell."""
    value = status.get("dict_free_bytes") if status else None
    return int(value) if value is not None else None
