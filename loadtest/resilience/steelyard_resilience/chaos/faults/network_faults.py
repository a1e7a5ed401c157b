"""Hosts cut off from each other, their names not to be found, the clock of one wrong (I/O by the stage).

Where the network is cut nothing passes, and nobody is told so. A clock is set an hour forward or back.
Servers are declared by names, and a DNS does not answer any more.
"""

import email.utils
import time
import urllib.request
from collections.abc import Callable
from itertools import product

from steelyard_loadtest.machine.child_process import wait_until

from steelyard_resilience.chaos.fault import Lasting, action
from steelyard_resilience.chaos.faults.cluster_state import SAMPLE, TABLE, change, daemon_of, document, leader
from steelyard_resilience.stage.hosts import CONTROLLERS, SERVER_PORT, name_of
from steelyard_resilience.stage.stage import Stage, overview

NEAR_S = 60.0
"""What a daemon says of the time is some seconds old; an hour is not mistaken for it."""

Time = Callable[[Stage], float]
"""Asks a daemon for the time, in seconds since 1970."""


def _of_nginx(stage: Stage) -> float:
    with urllib.request.urlopen(f"{stage.url}/", timeout=2.0) as answer:  # noqa: S310 - the stage's own
        date = answer.headers["Date"]
    return email.utils.parsedate_to_datetime(date).timestamp()


def _stored(key: str, member: str) -> Time:
    return lambda stage: float(document(stage, key)[member]) / 1000


CLOCKS: dict[str, tuple[str, Time | None]] = {
    "edge": ("nginx", _of_nginx),
    "leader": ("leader", _stored(TABLE, "issued_at_ms")),
    "memcached": ("memcached", None),
    "redis": ("redis", lambda stage: float(stage.redis_command("TIME")[0])),
    "server-1": ("agent-1", _stored(SAMPLE, "taken_at_ms")),
}
"""A daemon on each host, and what it says of the time (None: it goes by no such clock)."""


@action
def step_clock(on: str, seconds: float, *, stage: Stage) -> Lasting:
    """Set the clock of a host so far from the true time."""
    daemon, asked = CLOCKS[on]
    host = stage.daemon(daemon_of(stage, daemon)).host
    stage.step_clock(host, seconds)

    def check() -> str | None:
        off_s = asked(stage) - time.time() if asked else seconds
        if abs(off_s - seconds) > NEAR_S:
            return f"its clock was not set: it is {off_s:+.0f} s off, not {seconds:+.0f} s"
        return None

    yield check
    stage.step_clock(host, 0.0)


ENDS = {"edge": "nginx"} | {end: end for end in ("leader", "standby", "memcached", "redis", "server-1")}
"""A daemon on each kind of host."""


@action
def cut(pair: str, *, stage: Stage) -> Lasting:
    """Let nothing pass between two kinds of host, written with a bar between them; `controllers`: both."""
    # All are chosen before anything is cut: who leads is asked over the network.
    near, far = [
        CONTROLLERS if end == "controllers" else [stage.daemon(daemon_of(stage, ENDS[end])).host]
        for end in pair.split(" | ")
    ]
    for one, other in product(near, far):
        stage.cut(one, other)
    yield None
    for one, other in product(near, far):
        stage.mend(one, other)


RESOLVED_S = 20.0
"""Names are looked up at once; a busy machine may take several ticks."""

PUNCTUAL = 0.75
"""Of the ticks: each look-up hangs for longer than a tick, so waiting for one would be seen."""


@action
def hide_names(*, unknown: int = 0, take_over: bool = False, stage: Stage) -> Lasting:
    """Declare servers by name and let all look-ups hang; unknown: servers more, whose names never resolved.

    take_over: the leader is killed then.
    """
    declared = overview(stage, "/declaration")
    peers = [{**peer, "address": f"{name_of(peer['id'])}:{SERVER_PORT}"} for peer in declared["peers"]]
    change(stage, "PUT", "", {**declared, "peers": peers})
    first = document(stage, TABLE)["generation"]
    wait_until(
        lambda: (
            None if document(stage, TABLE)["generation"] > first + 1 else "no table of names was published"
        ),
        within_s=RESOLVED_S,
    )
    stage.hide_names(True)
    hidden = [f"unknown-{number}" for number in range(unknown)]
    more = [{"id": name, "address": f"{name_of(name)}:{SERVER_PORT}"} for name in hidden]
    change(stage, "PUT", "", {**declared, "peers": [*peers, *more]})
    before, began_s = document(stage, TABLE)["generation"], time.monotonic()
    killed = leader(stage) if take_over else None
    if killed:
        stage.daemon(killed).kill()

    def check() -> str | None:
        table = document(stage, TABLE)
        if len(table["peers"]) != len(peers):
            return f"the table has {len(table['peers'])} servers, not {len(peers)}"
        if killed:
            leading = stage.leader()
            return f"{leading or 'nobody'} leads" if leading in (None, killed) else None
        ticks, elapsed_s = table["generation"] - before, time.monotonic() - began_s
        return f"{ticks} ticks in {elapsed_s:.1f} s" if ticks < PUNCTUAL * elapsed_s else None

    yield check
    stage.hide_names(False)
    if killed:
        stage.daemon(killed).start()
    change(stage, "PUT", "", declared)
