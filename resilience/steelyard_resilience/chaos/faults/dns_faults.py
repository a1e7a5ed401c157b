"""Servers declared by host names, and a DNS that does not answer any more (I/O by the stage)."""

import json
import time
from collections.abc import Mapping
from typing import Any, cast

from steelyard_loadtest.machine.child_process import wait_until

from steelyard_resilience.chaos.fault import Action, Notes
from steelyard_resilience.chaos.faults import forgery
from steelyard_resilience.chaos.faults.cluster_state import TABLE, change, get, leader, overview
from steelyard_resilience.stage.hosts import SERVER_PORT, name_of
from steelyard_resilience.stage.stage import Stage

RESOLVED_S = 20.0
"""Names are looked up at once; a busy machine may take several ticks."""

PUNCTUAL = 0.75
"""Of the ticks: each look-up hangs for longer than a tick, so waiting for one would be seen."""


def hide_names(*, unknown: int = 0, take_over: bool = False) -> Action:
    """Declare servers by name and let all look-ups hang; unknown: servers more, whose names never resolved.

    take_over: the leader is killed then.
    """

    def begin(stage: Stage, notes: Notes) -> None:
        notes["declared"] = declared = overview(stage, "/declaration")
        peers = [{**peer, "address": f"{name_of(peer['id'])}:{SERVER_PORT}"} for peer in declared["peers"]]
        change(stage, "PUT", "", {**declared, "peers": peers})
        notes["servers"], first = len(peers), _table(stage)["generation"]
        wait_until(
            lambda: None if _table(stage)["generation"] > first + 1 else "no table of names was published",
            within_s=RESOLVED_S,
        )
        stage.hide_names(True)
        more = [
            {"id": f"unknown-{number}", "address": f"{name_of(f'unknown-{number}')}:{SERVER_PORT}"}
            for number in range(unknown)
        ]
        change(stage, "PUT", "", {**declared, "peers": [*peers, *more]})
        notes["generation"], notes["at_s"] = _table(stage)["generation"], time.monotonic()
        if take_over:
            notes["killed"] = name = leader(stage)
            stage.daemon(name).kill()

    def end(stage: Stage, notes: Notes) -> None:
        stage.hide_names(False)
        if "killed" in notes:
            stage.daemon(str(notes["killed"])).start()
        change(stage, "PUT", "", notes["declared"])

    def check(stage: Stage, notes: Mapping[str, object]) -> str | None:
        table = _table(stage)
        if len(table["peers"]) != notes["servers"]:
            return f"the table has {len(table['peers'])} servers, not {notes['servers']}"
        if take_over:
            leading = stage.leader()
            return f"{leading or 'nobody'} leads" if leading in (None, notes["killed"]) else None
        ticks = table["generation"] - cast(int, notes["generation"])
        elapsed_s = time.monotonic() - cast(float, notes["at_s"])
        late = ticks < PUNCTUAL * elapsed_s
        return f"{ticks} ticks in {elapsed_s:.1f} s" if late else None

    return Action(begin=begin, end=end, check=check)


def _table(stage: Stage) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(forgery.split(get(stage, TABLE))[1])
    return table
