"""What a soak reads of the processes and of the whole while it runs. Pure.

at_s is seconds since the load began; a process is known by its name and its pid, so that the
workers of before a reload and those of after it are never taken for one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

WORKER = "nginx worker"
MASTER = "nginx master"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """All that a run saw. refused: steps of churn that the controller did not take, in words.

    failures: failed requests by kind. first_failure_s: when the first of them was due.
    """

    seconds: float
    readings: Sequence[Reading]
    overviews: Sequence[Overview]
    sent: int
    failures: Mapping[str, int]
    reloads: Sequence[float]
    steps: int
    refused: Sequence[str]
    ending: Ending | None
    first_failure_s: float | None = None
    interrupted: bool = False
