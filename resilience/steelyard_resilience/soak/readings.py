"""What a soak reads of the processes and of the whole. Pure.

at_s is seconds since the load began; a process is known by its name and its pid, so that the workers of
before a reload and those of after it are never taken for one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard_loadtest.reporting.statistics import grouped

WORKER = "nginx worker"
MASTER = "nginx master"
WORKER_PREFIX = "worker "
"""Of a worker by its slot, among the requests in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One process at one moment.

    private_bytes: anonymous memory, resident or swapped out: heap and stacks. What is mapped from files or
    shared (the shared dict, which fills up to its fixed size) is only in resident_bytes. cpu_s: user and
    system time since it began. lua_bytes: LuaJIT's heap, where nginx's status tells it.
    """

    at_s: float
    process: str
    pid: int
    private_bytes: int
    resident_bytes: int
    descriptors: int
    threads: int
    cpu_s: float
    lua_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The whole at one moment; None or missing: it could not be read.

    in_flight: requests by server, and by nginx's worker. sent, failed: requests of the load so far. steps: of
    churn so far. dict_free_bytes: whole free pages of the shared dict. items, items_bytes: Memcached's.
    redis_bytes, keys: Redis's.
    """

    at_s: float
    sent: int
    failed: int
    steps: int
    in_flight: Mapping[str, int] = field(default_factory=dict)
    dict_free_bytes: int | None = None
    items: int | None = None
    items_bytes: int | None = None
    redis_bytes: int | None = None
    keys: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What was left when the load had ended.

    in_flight: requests by server that never ended. settled_s: until there were none; None: that never came.
    workers_left: nginx's that still ran. restarted: daemons that did not live through it.
    """

    in_flight: Mapping[str, int]
    settled_s: float | None
    workers_left: int
    restarted: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Soaked:
    """All that a run has seen; it grows while it goes on.

    steps, refused: those of churn that were done, and in words those that the controller did not take.
    failures: failed requests by kind. first_failure_s: when the first of them was due.
    """

    seconds: float
    readings: list[Reading] = field(default_factory=list)
    overviews: list[Overview] = field(default_factory=list)
    sent: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    first_failure_s: float | None = None
    reloads: list[float] = field(default_factory=list)
    steps: int = 0
    refused: list[str] = field(default_factory=list)
    ending: Ending | None = None
    interrupted: bool = False


def lives(readings: Iterable[Reading]) -> dict[tuple[str, int], list[Reading]]:
    """Return the readings of each process, in their order, by its name and pid."""
    return grouped(readings, lambda one: (one.process, one.pid))


def in_flight(status: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the requests in flight by server, over all upstreams; by worker too, under `worker SLOT`.

    The one is the workers' board, the other what each worker says of itself: both must come to 0.
    """
    status = status or {}
    requests: Counter[str] = Counter()
    for upstream in status.get("upstreams", {}).values():
        for peer in upstream.get("peers", ()):
            requests[str(peer.get("id"))] += int(peer.get("in_flight", 0))
    for worker in status.get("workers", ()):
        own = worker.get("in_flight")  # of none cjson makes a list
        requests[f"{WORKER_PREFIX}{worker.get('slot')}"] = sum(own.values()) if isinstance(own, dict) else 0
    return dict(requests)


def lua_bytes(status: Mapping[str, Any] | None) -> dict[int, int]:
    """Return the size of LuaJIT's heap by worker's pid, of those that tell it."""
    workers = status.get("workers", ()) if status else ()
    return {one["pid"]: one["lua_bytes"] for one in workers if "pid" in one and "lua_bytes" in one}


MEMCACHED_ITEMS, MEMCACHED_BYTES = rb"^STAT curr_items (\d+)", rb"^STAT bytes (\d+)"
REDIS_USED_BYTES, REDIS_KEYS = rb"^used_memory:(\d+)", rb"\A:(\d+)"
"""Of the answers to `stats`, INFO memory and DBSIZE."""


def counted(pattern: bytes, answer: bytes) -> int | None:
    """Return the number in a store's answer; None: it does not tell."""
    match = re.search(pattern, answer, re.MULTILINE)
    return int(match[1]) if match else None
