"""The times that the bounds are made of, and the bounds that many faults share. Pure.

Each is a time of the shipped configuration, or of the stage's nginx.conf; a bound that needs another number
says so itself.
"""

from steelyard_loadtest.chaos.model import Bound

CALM_MS = 300.0
"""The slowest request while nothing is in the requests' way: they take some 10 ms, and on two cores a daemon
that starts (a second of CPU in Python) makes some wait."""

PAUSE_S = 5.0
"""How long what is stopped stands still: longer than a lease (3 s), so that a standby wants to take over."""

AWAY_S = 8.0
"""How long what is killed or cut off stays away: longer than a takeover (6 s) or a fresh table (3 s) last,
so that the cluster has to find its way without it."""

CONNECT_TIMEOUT_S = 1.0
"""proxy_connect_timeout: a server that takes no connection is tried for so long."""

READ_TIMEOUT_S = 3.0
"""proxy_read_timeout: a server that does not answer is waited for so long; then the next one is tried."""

FAIL_TIMEOUT_S = 10.0
"""nginx's `fail_timeout_s`: a server that gave no answer three times is left out for so long."""

TAKEOVER_S = 6.0
"""Two leases: a standby takes over within that (decision 11)."""

ANSWERS_AGAIN_S = 3.0
"""What was slow to fail is not asked again for 3 s (io/away.lua)."""

AGENT_RETRIES_S = 8.0
"""An agent whose Memcached was away tries it again after at most 8 s (store.LONGEST_PAUSE_S)."""

START_S = 3.0
"""An agent or a server has started: half a second of CPU in Python, on two cores that are at work."""

CONTROLLER_START_S = 6.0
"""A controller has started: 2.5 s of CPU, most of it for imports, on two cores that are at work."""

TICKS_S = 2.0
"""A tick of the controller, a fetch of nginx, a report: what follows any change."""


def untouched(recover_s: float, why: str = "", *, rung: str = "fresh") -> Bound:
    """Return the bound of what is not in the requests' way: none fails, none is slow."""
    return Bound(worst_ms=CALM_MS, recover_s=recover_s, rung=rung, why=why)


def tried_elsewhere(worst_s: float, recover_s: float, why: str) -> Bound:
    """Return the bound of a server that is away: its requests are answered by another one, late."""
    return Bound(worst_ms=1000 * worst_s + CALM_MS, recover_s=recover_s, why=why)
