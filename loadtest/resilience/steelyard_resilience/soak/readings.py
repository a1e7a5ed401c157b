"""The readings of a soak's processes, and its other observations. Pure.

at_s is seconds since the load began. A process is known by its name and its pid, which distinguishes the
workers before a reload from those after it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard_loadtest.reporting.statistics import grouped

WORKER = "nginx worker"
MASTER = "nginx master"
REDIS = "redis"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One process at one moment."""

    at_s: float
    process: str
    pid: int
    private_bytes: int
    """Anonymous memory, resident or swapped out: heap and stacks, without mapped files and shared memory.

    The shared dict does not count, because it fills up to its fixed size.
    """
    descriptors: int
    threads: int
    heap_bytes: int | None = None
    """The process's own figure: LuaJIT's heap in nginx's status, Redis's used memory; None: no report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The state after the end of the load.

    in_flight: unfinished requests by server. settled_s: time until there were none; None: there always were.
    workers_left: number of nginx's workers. restarted: a line for each restarted daemon.
    """

    in_flight: Mapping[str, int]
    settled_s: float | None
    workers_left: int
    restarted: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Soaked:
    """The observations of a run so far.

    steps: number of steps of churn taken. refused: a line for each step that the controller refused.
    failures: failed requests by kind. first_failure_s: due time of the first of them.
    """

    seconds: float
    readings: list[Reading] = field(default_factory=list)
    sent: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    first_failure_s: float | None = None
    reloads: list[float] = field(default_factory=list)
    steps: int = 0
    refused: list[str] = field(default_factory=list)
    ending: Ending | None = None
    interrupted: bool = False

    @property
    def at_s(self) -> float:
        """Return the time of the last reading; 0 if there is none."""
        return self.readings[-1].at_s if self.readings else 0.0


def lives(readings: Iterable[Reading]) -> dict[tuple[str, int], list[Reading]]:
    """Return the readings of each process, in their order, by name and pid."""
    return grouped(readings, lambda one: (one.process, one.pid))


def in_flight(status: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the requests in flight by server, over all upstreams; by worker too, under `worker SLOT`.

    The first is the workers' shared board, the second each worker's own count: both must return to 0.
    """
    status = status or {}
    requests: Counter[str] = Counter()
    for upstream in status.get("upstreams", {}).values():
        for peer in upstream.get("peers", ()):
            requests[str(peer.get("id"))] += int(peer.get("in_flight", 0))
    for worker in status.get("workers", ()):
        own = worker.get("in_flight")  # cjson encodes an empty table as a list
        requests[f"worker {worker.get('slot')}"] = sum(own.values()) if isinstance(own, dict) else 0
    return dict(requests)


def lua_bytes(status: Mapping[str, Any] | None) -> dict[int, int]:
    """Return the reported size of LuaJIT's heap by worker's pid."""
    workers = status.get("workers", ()) if status else ()
    return {one["pid"]: one["lua_bytes"] for one in workers if "pid" in one and "lua_bytes" in one}
