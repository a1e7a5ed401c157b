"""What a process may gain over the judged part of a soak, and why it may. Pure."""

from dataclasses import dataclass, replace

from steelyard_loadtest.soak.records import MASTER, WORKER

KB, MB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Growth that is no leak: private memory in bytes, descriptors, threads; why: the reasons.

    A process is judged once it is warm_up_s old, or warm_up_part of a short soak.
    """

    private_bytes: int
    descriptors: int
    threads: int
    why: str
    warm_up_s: float = 120.0
    warm_up_part: float = 0.2

    def warm_after_s(self, seconds: float) -> float:
        """Return how old a process must be to be judged, in a soak of so many seconds."""
        return min(self.warm_up_s, seconds * self.warm_up_part)


NGINX = Allowed(
    private_bytes=MB,
    descriptors=32,
    threads=0,
    why="nginx: 1 MB, for LuaJIT's heap swings between two collections, a new peak is kept, and so are the "
    "buffers of connections; 32 descriptors, for requests that pile up open connections, which are then kept "
    "(in a short soak Lua is interpreted: LuaJIT goes on for minutes to compile what is seldom done)",
)
# A trace takes 2 kB; after two minutes there were 250 in a worker without requests, and in one with load and
# churn its heap had grown by 1.6 MB. With jit.off() it stays at 0.6 MB, to 10 kB.
# In half an hour of both it gained 4.5 MB in the first ten minutes, and half a megabyte in the ten after it.
COMPILING = replace(NGINX, warm_up_s=600.0, warm_up_part=1 / 3)
PYTHON = Allowed(
    private_bytes=2 * MB,
    descriptors=8,
    threads=4,
    why="Python: 2 MB, for CPython takes memory in arenas of 1 MB, and the C library in pieces too; "
    "8 descriptors (demo servers: 24, for nginx's connections) and 4 threads, for pools of both grow with "
    "what is done at the same time",
)
SERVER = replace(PYTHON, descriptors=24)
REDIS_BYTES = 512 * KB
HISTORY_S = 900.0
"""The controllers keep so much history in Redis, which fills up for that long by design (`--history-s`)."""

IN_FLIGHT_WITHIN_S = 10.0
"""After the load: an answer takes some 10 ms, and nginx's workers tell what is in flight each 0.2 s."""

JUDGED_LEAST_S = 30.0
"""A shorter life tells nothing: a leak would have to be of 20 kB/s to stand out."""


KINDS = {
    MASTER: NGINX,
    WORKER: COMPILING,
    "controller-1": PYTHON,
    "controller-2": PYTHON,
    "agents": PYTHON,
    "demo servers": SERVER,
}
"""What is judged, in the order of the table. The stores have counters of their own."""

MANY = {"agent-": "agents", "server-": "demo servers"}
"""Of these there are several alike."""


def kind(process: str) -> str | None:
    """Return under which name of KINDS a process is judged; None: it is not."""
    for prefix, name in MANY.items():
        if process.startswith(prefix):
            return name
    return process if process in KINDS else None
