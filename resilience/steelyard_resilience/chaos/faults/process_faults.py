"""Every daemon killed, stopped and restarted; servers dead, slow, or failing their checks (I/O)."""

import time
from collections.abc import Callable, Mapping
from typing import cast

from steelyard_resilience.chaos.fault import Action, Check, Notes
from steelyard_resilience.chaos.faults.cluster_state import (
    RepeatInBackground,
    change,
    daemon_of,
    nginx_status,
    overview,
    stop_repeating,
)
from steelyard_resilience.stage.daemon import Daemon
from steelyard_resilience.stage.stage import Stage

STILL_S, RUNS_S = 0.08, 0.02
"""A slow server is stopped and let go, so that it runs a fifth of the time."""

TOO_LATE = ("--delay-ms", "60000")
"""Of a demo server: later than nginx waits for any. Stopped (SIGSTOP), it would fail its checks too."""

STRICT = {"path": "/no-such-page", "interval_s": 0.5, "timeout_s": 1.0, "rise": 1, "fall": 1}
"""A health check that no server passes, quickly."""


def _another_leads(stage: Stage, notes: Mapping[str, object]) -> str | None:
    leading = stage.leader()
    if leading is None or leading == notes["daemon"]:
        return f"the standby did not take over: {leading or 'nobody'} leads"
    return None


def _is_left_out(stage: Stage, notes: Mapping[str, object]) -> str | None:
    for peer in nginx_status(stage)["peers"]:
        if peer["id"] == notes["daemon"] and peer["eligible"]:
            return f"nginx still sends requests to {peer['id']}"
    return None


def _to_daemon(
    part: str,
    begin: Callable[[Daemon], None],
    end: Callable[[Daemon], None] = lambda _daemon: None,
    **checks: Check,
) -> Action:
    """Return what is done to one daemon, whoever is `leader` or `standby` then; checks: by part."""

    def begin_it(stage: Stage, notes: Notes) -> None:
        notes["daemon"] = name = daemon_of(stage, part)
        begin(stage.daemon(name))

    def end_it(stage: Stage, notes: Notes) -> None:
        end(stage.daemon(str(notes["daemon"])))

    return Action(begin=begin_it, end=end_it, check=checks.get(part.partition("-")[0]))


def kill(part: str) -> Action:
    """Kill a daemon with its children, and start it again."""
    return _to_daemon(
        part, lambda daemon: daemon.kill(), lambda daemon: daemon.start(), leader=_another_leads,
        server=_is_left_out,
    )  # fmt: skip


def pause(part: str) -> Action:
    """Stop a daemon with its children (SIGSTOP), and let it go on."""
    return _to_daemon(
        part, lambda daemon: daemon.pause(), lambda daemon: daemon.resume(), server=_is_left_out
    )


def _again(daemon: Daemon, *extra: str) -> None:
    daemon.stop()
    daemon.start(*extra)


def restart(part: str) -> Action:
    """End a daemon in order and start it again."""
    return _to_daemon(part, _again)


def hang(part: str) -> Action:
    """Let a server answer its health checks at once and requests far too late; and as ever again."""
    return _to_daemon(part, lambda server: _again(server, *TOO_LATE), _again, server=_is_left_out)


def kill_servers(left: int) -> Action:
    """Kill all servers but the first few, and start them again."""

    def begin(stage: Stage, notes: Notes) -> None:
        notes["killed"] = names = [name for name in stage.names if name.startswith("server-")][left:]
        for name in names:
            stage.daemon(name).kill()

    def end(stage: Stage, notes: Notes) -> None:
        for name in cast(list[str], notes["killed"]):
            stage.daemon(name).start()

    return Action(begin=begin, end=end)


def fail_health_checks() -> Action:
    """Declare a health check that no server passes."""

    def begin(stage: Stage, notes: Notes) -> None:
        notes["declared"] = declared = overview(stage, "/declaration")
        change(stage, "PUT", "", {**declared, "check": STRICT})

    def end(stage: Stage, notes: Notes) -> None:
        change(stage, "PUT", "", notes["declared"])

    def fails_open(stage: Stage, _notes: Mapping[str, object]) -> str | None:
        return None if nginx_status(stage)["fail_open"] else "nginx does not say that no server is healthy"

    return Action(begin=begin, end=end, check=fails_open)


def slow_server() -> Action:
    """Let the first server run a fifth of the time."""

    def begin(stage: Stage, notes: Notes) -> None:
        server = stage.daemon("server-1")

        def hold() -> None:
            server.pause()
            time.sleep(STILL_S)
            server.resume()

        notes["holder"] = RepeatInBackground(hold, interval_s=RUNS_S)

    def end(stage: Stage, notes: Notes) -> None:
        try:
            stop_repeating(stage, notes)
        finally:
            stage.daemon("server-1").resume()

    return Action(begin=begin, end=end)
