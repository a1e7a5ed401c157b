"""What is done to nginx: workers killed, stopped, ended; reloads, HAProxy's too; a full disk; no log()."""

import os
import shutil
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from signal import SIGCONT, SIGHUP, SIGUSR2, Signals
from typing import cast

from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_protocol import signature, weight_table
from steelyard_protocol.wire import Refused

from steelyard_resilience.chaos.fault import Action, Notes
from steelyard_resilience.chaos.faults.cluster_state import (
    RepeatInBackground,
    change,
    nginx_status,
    stop_repeating,
)
from steelyard_resilience.stage.hosts import EDGE, OWN_LOG_PORT, UPSTREAM, WEB_PORT
from steelyard_resilience.stage.stage import Stage

BETWEEN_RELOADS_S = 0.5
"""Shorter than a reload takes here, so that workers of three configurations live side by side."""

WAIT_MS, OPENED_EACH_S = 2000, 0.001
"""What is open at a reload is answered so late: when all have begun, and well before proxy_read_timeout."""

UNLOGGED, EACH_S = 50, 0.1
"""Requests at a time, and again: in 8 s more than the servers may have in flight (layout.MAX_CONNS)."""

AT_REST = 40
"""Requests in flight of the load alone: one or two, but on a busy machine in bunches."""

ANSWERED_S = 10.0

FOUND_S = 10.0
"""What ends without a word is found when the garbage is collected: at the load's rate within some 5 s."""

PEER = "server-3"
"""Drained and taken back, so that there is a table to be saved."""

CHUNK = 4096

MOST_BYTES = 16 * 1024 * 1024
"""A disk that is larger is not the stage's, but somebody's."""


def signal_worker(signal: str) -> Action:
    """Send a signal to one of nginx's workers; one that was stopped goes on at the end."""

    def begin(stage: Stage, notes: Notes) -> None:
        workers = stage.daemon("nginx").children()
        if not workers:
            raise ProgramError("nginx has no workers")
        notes["worker"] = workers[0]
        os.kill(workers[0], Signals[signal])

    def resume(_stage: Stage, notes: Notes) -> None:
        if signal == "SIGSTOP":
            os.kill(cast(int, notes["worker"]), SIGCONT)

    return Action(begin=begin, end=resume)


def reload(times: int) -> Action:
    """Tell nginx so many times to read its configuration again."""

    def begin(stage: Stage, _notes: Notes) -> None:
        for number in range(times):
            time.sleep(BETWEEN_RELOADS_S if number else 0)
            stage.daemon("nginx").signal(SIGHUP)

    return Action(begin=begin)


def reload_under(requests: int) -> Action:
    """Reload nginx while so many requests wait for their servers; all must be answered, and counted."""

    def begin(stage: Stage, notes: Notes) -> None:
        notes["uncounted"] = _uncounted(stage)
        asked = []
        for _ in range(requests):
            asked.append(_ask(stage, WEB_PORT, f"/sleep?ms={WAIT_MS}"))
            time.sleep(OPENED_EACH_S)
        wait_until(
            lambda: None if _in_flight(stage) >= requests / 2 else "not half of them are under way",
            within_s=WAIT_MS / 1000,
        )
        stage.daemon("nginx").signal(SIGHUP)
        notes["lost"] = _lost(asked)

    def check(stage: Stage, notes: Mapping[str, object]) -> str | None:
        if notes["lost"]:
            return f"{notes['lost']} of {requests} open requests are lost"
        uncounted = _uncounted(stage) - cast(int, notes["uncounted"])
        return f"the ends of {uncounted} requests are not counted" if uncounted > AT_REST else None

    return Action(begin=begin, check=check)


def end_unlogged() -> Action:
    """Ask beside the load where nothing says that a request has ended; afterwards none may be in flight."""

    def begin(stage: Stage, notes: Notes) -> None:
        lost: list[int] = []
        notes["unlogged"], notes["lost"] = nginx_status(stage)["unlogged"], lost

        def ask() -> None:
            lost.append(_lost([_ask(stage, OWN_LOG_PORT, "/") for _ in range(UNLOGGED)]))

        notes["load"] = RepeatInBackground(ask, interval_s=EACH_S)

    def end(stage: Stage, notes: Notes) -> None:
        stop_repeating(stage, notes)
        wait_until(lambda: _more_in_flight(stage), within_s=FOUND_S)

    def check(stage: Stage, notes: Mapping[str, object]) -> str | None:
        if lost := sum(cast(list[int], notes["lost"])):
            return f"{lost} requests of that location are lost"
        found = nginx_status(stage)["unlogged"] > notes["unlogged"]
        return None if found else "no request is found that ended without log()"

    return Action(begin=begin, end=end, check=check)


def _ask(stage: Stage, port: int, path: str) -> socket.socket:
    """Send nginx a request on a connection of its own."""
    asked = socket.create_connection((stage.address(EDGE), port), ANSWERED_S)
    asked.sendall(f"GET {path} HTTP/1.1\r\nHost: {UPSTREAM}\r\nConnection: close\r\n\r\n".encode())
    return asked


def _lost(asked: list[socket.socket]) -> int:
    """Wait for all the answers; return how many are not as wanted."""
    lost = 0
    for each in asked:
        with each, each.makefile("rb") as stream:
            lost += not stream.read().startswith(b"HTTP/1.1 200 ")
    return lost


def _in_flight(stage: Stage) -> int:
    return sum(peer["in_flight"] for peer in nginx_status(stage)["peers"])


def _uncounted(stage: Stage) -> int:
    """Return how many have been sent to servers, are not in flight, and are counted as nothing else."""
    peers = nginx_status(stage)["peers"]
    return sum(peer["picks"] - peer["completed"] - peer["failed"] - peer["in_flight"] for peer in peers)


def _more_in_flight(stage: Stage) -> str | None:
    in_flight = _in_flight(stage)
    return f"{in_flight} requests are in flight, most of which have ended" if in_flight > AT_REST else None


def reload_haproxy() -> Action:
    """Tell HAProxy's master to begin a new worker; the old one ends what it has begun."""
    return Action(begin=lambda stage, _notes: stage.daemon("haproxy").signal(SIGUSR2))


def fill_disk() -> Action:
    """Fill up the disk of nginx's saved tables, when there is another table to be saved."""
    return Action(begin=_fill, end=_empty, check=_old_one_is_whole)


def _filler(stage: Stage) -> Path:
    return stage.state_dir / "filler"


def _fill(stage: Stage, _notes: Notes) -> None:
    if shutil.disk_usage(stage.state_dir).total > MOST_BYTES:
        raise ProgramError(f"{stage.state_dir} is no small disk of its own, and is not filled up")
    with _filler(stage).open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"f" * CHUNK)
        except OSError:
            pass  # that is what it is for
    change(stage, "PATCH", f"/peers/{PEER}", {"state": "drain"})


def _empty(stage: Stage, _notes: Notes) -> None:
    try:
        change(stage, "PATCH", f"/peers/{PEER}", {"state": "up"})
    finally:
        _filler(stage).unlink(missing_ok=True)


def _old_one_is_whole(stage: Stage, _notes: Mapping[str, object]) -> str | None:
    status = stage.status()
    if status is None or not status["saved_error"]:
        return "nginx does not say that it cannot save: was the disk full?"
    path = stage.state_dir / f"{UPSTREAM}.weights"
    table = signature.read(stage.key, path.read_bytes(), weight_table.decode)
    return f"the table that was saved before is damaged: {table}" if isinstance(table, Refused) else None
