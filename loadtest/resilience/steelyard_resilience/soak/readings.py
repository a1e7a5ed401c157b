"""What a soak reads of the processes, and what else it sees. Pure.

at_s is seconds since the load began; a process is known by its name and its pid, so that the workers of
before a reload and those of after it are never taken for one.
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
    """One process at one moment.

    private_bytes: anonymous memory, resident or swapped out: heap and stacks, and not what is mapped from
    files or shared (the shared dict, which fills up to its fixed size). heap_bytes: what the process itself
    says that it uses: LuaJIT's heap in nginx's status, Redis's memory; None: it does not say.
    """

    at_s: float
    process: str
    pid: int
    private_bytes: int
    descriptors: int
    threads: int
    heap_bytes: int | None = None


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
        """Return when it was read last; 0: never."""
        return self.readings[-1].at_s if self.readings else 0.0


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
        requests[f"worker {worker.get('slot')}"] = sum(own.values()) if isinstance(own, dict) else 0
    return dict(requests)


def lua_bytes(status: Mapping[str, Any] | None) -> dict[int, int]:
    """Return the size of LuaJIT's heap by worker's pid, of those that tell it."""
    workers = status.get("workers", ()) if status else ()
    return {one["pid"]: one["lua_bytes"] for one in workers if "pid" in one and "lua_bytes" in one}
