"""Servers declared by host names, and a DNS that does not answer any more (I/O by the stage)."""

import time

from steelyard_loadtest.machine.child_process import wait_until

from steelyard_resilience.chaos.fault import Lasting, action
from steelyard_resilience.chaos.faults.cluster_state import TABLE, change, document, leader
from steelyard_resilience.stage.hosts import SERVER_PORT, name_of
from steelyard_resilience.stage.stage import Stage, overview

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
