"""Servers dead, slow, or failing their health checks (I/O by the stage)."""

import json
import time
from collections.abc import Mapping
from typing import cast

from steelyard_loadtest.chaos.faults import bounds, chosen, seen
from steelyard_loadtest.chaos.faults.steadily import Steadily
from steelyard_loadtest.chaos.model import Bound, Fault
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.stage.stage import Stage

GROUP = "servers"

REQUESTS_PER_S = 200
"""The load's rate, where a bound has to count the requests of some seconds."""

NOBODY_S = 4.0
"""How long no server runs."""

STILL_S, RUNS_S = 0.08, 0.02
"""A slow server is stopped and let go, so that it runs a fifth of the time."""

STRICT = {"path": "/no-such-page", "interval_s": 0.5, "timeout_s": 1.0, "rise": 1, "fall": 1}
"""A health check that no server passes, quickly."""


def _kill(stage: Stage, notes: dict[str, object], names: list[str]) -> None:
    notes["killed"] = names
    for name in names:
        stage.daemon(name).kill()


def _kill_all(stage: Stage, notes: dict[str, object]) -> None:
    _kill(stage, notes, chosen.servers(stage))


def _kill_all_but_one(stage: Stage, notes: dict[str, object]) -> None:
    _kill(stage, notes, chosen.servers(stage)[1:])


def _start(stage: Stage, notes: dict[str, object]) -> None:
    for name in cast(list[str], notes["killed"]):
        stage.daemon(name).start()


def _fails_open(stage: Stage, _notes: Mapping[str, object]) -> str | None:
    return None if seen.served(stage)["fail_open"] else "nginx does not say that no server is healthy"


def _check_nothing(stage: Stage, notes: dict[str, object]) -> None:
    status, body = stage.api("GET", "/v1/upstreams/web/declaration")
    if status != 200:
        raise ProgramError(f"the leader answers {status} for what is declared: {body[:300]!r}")
    notes["declared"] = declared = json.loads(body)
    seen.change(stage, "PUT", "", {**declared, "check": STRICT})


def _check_as_before(stage: Stage, notes: dict[str, object]) -> None:
    seen.change(stage, "PUT", "", notes["declared"])


def _slow_down(stage: Stage, notes: dict[str, object]) -> None:
    server = stage.daemon("server-1")

    def hold() -> None:
        server.pause()
        time.sleep(STILL_S)
        server.resume()

    notes["holder"] = Steadily(hold, interval_s=RUNS_S)


def _let_go(stage: Stage, notes: dict[str, object]) -> None:
    try:
        Steadily.stop_in(notes)
    finally:
        stage.daemon("server-1").resume()


def faults() -> list[Fault]:
    """Return the faults of several servers, and of one that lives and is bad."""
    comes_back_s = bounds.FAIL_TIMEOUT_S + bounds.TICKS_S
    return [
        Fault(
            name="every server unhealthy", group=GROUP, begin=_check_nothing, end=_check_as_before,
            lasts_s=bounds.AWAY_S, check=_fails_open,
            bound=bounds.untouched(
                bounds.ANSWERS_AGAIN_S + bounds.TICKS_S, "when all are out, all are used (fail open)"
            ),
        ),
        Fault(
            name="every server killed", group=GROUP, begin=_kill_all, end=_start, lasts_s=NOBODY_S,
            bound=Bound(
                failed=round(REQUESTS_PER_S * (NOBODY_S + bounds.START_S)),
                worst_ms=bounds.CALM_MS, recover_s=comes_back_s,
                why="no server, no answer, but a 502 at once that says why; all are used as they come back",
            ),
        ),
        Fault(
            name="all servers but one killed", group=GROUP, begin=_kill_all_but_one, end=_start,
            lasts_s=bounds.AWAY_S,
            bound=bounds.untouched(
                comes_back_s,
                "a request may try three servers, and here are three; the dead are left out for 10 s",
            ),
        ),
        Fault(
            name="one server slow", group=GROUP, begin=_slow_down, end=_let_go, lasts_s=bounds.AWAY_S,
            bound=bounds.untouched(bounds.TICKS_S, "it runs 20 ms in 100"),
        ),
    ]  # fmt: skip
