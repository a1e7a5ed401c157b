"""Faults of processes: daemons killed, stopped, restarted; servers dead, slow, failing their checks (I/O).

Servers hang up at one URL, too.
"""

import time
from functools import partial

from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.repeating import repeating

from steelyard_resilience.chaos.fault import Check, Lasting, action
from steelyard_resilience.chaos.faults.cluster_state import change, daemon_of, nginx_status
from steelyard_resilience.stage import hosts
from steelyard_resilience.stage.stage import Stage, overview

STILL_S, RUNS_S = 0.08, 0.02
"""A slow server stops for the first time and runs for the second, a fifth of the whole."""

TOO_LATE = ("--delay-ms", "60000")
"""A demo server's delay beyond nginx's timeout. A stopped one (SIGSTOP) would fail its checks too."""

STRICT = {"path": "/no-such-page", "interval_s": 0.5, "timeout_s": 1.0, "rise": 1, "fall": 1}
"""A health check that every server fails, quickly."""

HANG_UP, HUNG_UP_EACH_S = "/hang-up", 0.1
"""A URL at which a demo server hangs up, and the interval of the requests for it, beside the load."""

MOST_TRIES = 3
"""A request's first try, and nginx's `retries`: two by default."""


def _another_leads(stage: Stage, killed: str) -> str | None:
    leading = stage.leader()
    problem = f"the standby did not take over: {leading or 'no controller'} leads"
    return problem if leading in (None, killed) else None


def _left_out(stage: Stage, part: str) -> Check | None:
    def check() -> str | None:
        eligible = [peer["id"] for peer in nginx_status(stage)["peers"] if peer["eligible"]]
        return f"nginx still sends requests to {part}" if part in eligible else None

    return check if part.startswith("server-") else None


@action
def kill(part: str, *, stage: Stage) -> Lasting:
    """Kill a daemon with its children, and start it again."""
    daemon = stage.daemon(daemon_of(stage, part))
    daemon.kill()
    yield partial(_another_leads, stage, daemon.name) if part == "leader" else _left_out(stage, part)
    daemon.start()


@action
def pause(part: str, *, stage: Stage) -> Lasting:
    """Stop a daemon with its children (SIGSTOP), and continue it."""
    daemon = stage.daemon(daemon_of(stage, part))
    daemon.pause()
    yield _left_out(stage, part)
    daemon.resume()


@action
def restart(part: str, *, stage: Stage) -> Lasting:
    """End a daemon in order and start it again."""
    stage.daemon(daemon_of(stage, part)).restart()
    yield None


@action
def hang(part: str, *, stage: Stage) -> Lasting:
    """Make a server answer its health checks at once and requests far too late; then restore it."""
    stage.daemon(part).restart(*TOO_LATE)
    yield _left_out(stage, part)
    stage.daemon(part).restart()


@action
def kill_servers(left: int, *, stage: Stage) -> Lasting:
    """Kill all servers but the first `left`, and start them again."""
    killed = [stage.daemon(name) for name in stage.names if name.startswith("server-")][left:]
    for daemon in killed:
        daemon.kill()
    yield None
    for daemon in killed:
        daemon.start()


@action
def fail_health_checks(*, stage: Stage) -> Lasting:
    """Declare a health check that every server fails."""
    declared = overview(stage, "/declaration")
    change(stage, "PUT", "", {**declared, "check": STRICT})
    problem = "nginx does not report fail open"
    yield lambda: None if nginx_status(stage)["fail_open"] else problem
    change(stage, "PUT", "", declared)


@action
def slow_server(*, stage: Stage) -> Lasting:
    """Slow the first server down: it runs a fifth of the time."""
    server = stage.daemon("server-1")

    def hold() -> None:
        server.pause()
        time.sleep(STILL_S)
        server.resume()

    try:
        with repeating(hold, interval_s=RUNS_S):
            yield None
    finally:
        server.resume()


@action
def hang_up(*, stage: Stage) -> Lasting:
    """Ask for a URL at which all servers hang up, over the connections that the load keeps open."""
    asked: list[str] = []
    before = _failed(stage)

    def ask() -> None:
        asked.append(HANG_UP)
        http_ask.ask(stage.addresses[hosts.EDGE], hosts.WEB_PORT, HANG_UP)

    def check() -> str | None:
        peers, failed = nginx_status(stage)["peers"], _failed(stage) - before
        if failed > MOST_TRIES * len(asked) or failed < len(asked) / 2:
            return (
                f"{len(asked)} requests were tried {failed} times, and each may be tried {MOST_TRIES} times"
            )
        out = [peer["id"] for peer in peers if peer["health"] != "ok"]
        return f"the URL takes out {', '.join(out)}" if out else None

    with repeating(ask, interval_s=HUNG_UP_EACH_S):
        yield check


def _failed(stage: Stage) -> int:
    failed: int = sum(peer["failed"] for peer in nginx_status(stage)["peers"])
    return failed
