"""Faults of the network: hosts cut off from each other, an unreachable DNS, a wrong clock (I/O by the stage).

A cut drops all packets silently. A clock steps an hour forward or back. With servers declared by name, the
DNS stops answering.
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
"""A daemon's time may be some seconds old; a step of an hour is far more."""

Time = Callable[[Stage], float]
"""Returns a daemon's time, in seconds since 1970."""


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
"""A daemon on each host, and its source of time (None: it uses no such clock)."""


@action
def step_clock(on: str, seconds: float, *, stage: Stage) -> Lasting:
    """Set the clock of a host `seconds` from the true time."""
    daemon, time_of = CLOCKS[on]
    host = stage.daemon(daemon_of(stage, daemon)).host
    stage.step_clock(host, seconds)

    def check() -> str | None:
        off_s = time_of(stage) - time.time() if time_of else seconds
        if abs(off_s - seconds) > NEAR_S:
            return f"the clock of {on} is off by {off_s:+.0f} s, not by {seconds:+.0f} s"
        return None

    yield check
    stage.step_clock(host, 0.0)


ENDS = {"edge": "nginx"} | {end: end for end in ("leader", "standby", "memcached", "redis", "server-1")}
"""A daemon on each kind of host."""


@action
def cut(pair: str, *, stage: Stage) -> Lasting:
    """Drop all packets between two kinds of host, in the form `leader | redis`; `controllers`: both."""
    # The hosts are chosen before the cut: the question for the leader needs the network.
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
"""The controller looks names up at once; a busy machine may take several ticks."""

PUNCTUAL = 0.75
"""Part of the ticks that must happen: a look-up hangs for longer than a tick, so a wait for it would show."""


@action
def hide_names(*, unknown: int = 0, take_over: bool = False, stage: Stage) -> Lasting:
    """Declare servers by name and make all look-ups hang.

    unknown: number of further servers with names that never resolve. take_over: kill the leader as well.
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
            problem = f"the standby did not take over: {leading or 'no controller'} leads"
            return problem if leading in (None, killed) else None
        ticks, elapsed_s = table["generation"] - before, time.monotonic() - began_s
        return f"{ticks} ticks in {elapsed_s:.1f} s" if ticks < PUNCTUAL * elapsed_s else None

    yield check
    stage.hide_names(False)
    if killed:
        stage.daemon(killed).start()
    change(stage, "PUT", "", declared)
