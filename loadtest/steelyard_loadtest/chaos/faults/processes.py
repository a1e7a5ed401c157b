"""Every daemon killed, stopped for a while, and restarted in order (I/O by the stage)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steelyard_loadtest.chaos.faults import bounds, chosen, seen
from steelyard_loadtest.chaos.faults.chosen import Chosen
from steelyard_loadtest.chaos.model import Bound, Fault
from steelyard_loadtest.stage.stage import Stage

Check = Callable[[Stage, Mapping[str, object]], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A daemon, the bounds of its three faults, and what must be true while it is dead or stands still."""

    name: str
    which: Chosen
    killed: Bound
    paused: Bound
    restarted: Bound
    while_away: Check | None = None
    while_paused: Check | None = None
    quick: tuple[str, ...] = ()


def _another_leads(stage: Stage, notes: Mapping[str, object]) -> str | None:
    leading = stage.leader()
    if leading is None or leading == notes["daemon"]:
        return f"the standby did not take over: {leading or 'nobody'} leads"
    return None


def _is_left_out(stage: Stage, notes: Mapping[str, object]) -> str | None:
    for peer in seen.served(stage)["peers"]:
        if peer["id"] == notes["daemon"] and peer["eligible"]:
            return f"nginx still sends requests to {peer['id']}"
    return None


_PARTS = (
    _Part(
        name="memcached",
        which=chosen.named("memcached"),
        killed=bounds.untouched(
            bounds.AGENT_RETRIES_S + bounds.TICKS_S,
            "nginx asks the controllers; an agent tries again within 8 s",
        ),
        paused=bounds.untouched(
            bounds.AGENT_RETRIES_S + bounds.TICKS_S,
            "nginx asks the controllers; an agent tries again within 8 s",
        ),
        restarted=bounds.untouched(
            bounds.ANSWERS_AGAIN_S + bounds.TICKS_S, "comes back empty; the next tick fills it again"
        ),
    ),
    _Part(
        name="redis",
        which=chosen.named("redis"),
        killed=bounds.untouched(bounds.TAKEOVER_S, "the leader goes on from memory"),
        paused=bounds.untouched(bounds.TAKEOVER_S, "the lease runs out meanwhile and is taken anew"),
        restarted=bounds.untouched(bounds.TAKEOVER_S, "the leader goes on from memory"),
    ),
    _Part(
        name="leader",
        which=chosen.leader,
        killed=bounds.untouched(
            bounds.CONTROLLER_START_S + bounds.TICKS_S,
            "its last table, fresh for 3 s, holds until the standby takes over, within two leases (6 s)",
            rung="hold",
        ),
        paused=bounds.untouched(
            bounds.TAKEOVER_S,
            "as killed; when it wakes it asks who leads before it writes anything",
            rung="hold",
        ),
        restarted=bounds.untouched(
            bounds.CONTROLLER_START_S + bounds.TICKS_S,
            "gives its lease back, so the standby leads within a second",
        ),
        while_away=_another_leads,
        quick=("killed",),
    ),
    _Part(
        name="standby",
        which=chosen.standby,
        killed=bounds.untouched(bounds.CONTROLLER_START_S + bounds.TICKS_S),
        paused=bounds.untouched(bounds.TICKS_S),
        restarted=bounds.untouched(bounds.CONTROLLER_START_S + bounds.TICKS_S),
    ),
    _Part(
        name="agent-1",
        which=chosen.named("agent-1"),
        killed=bounds.untouched(bounds.START_S + bounds.TICKS_S, "its server keeps what was learnt of it"),
        paused=bounds.untouched(bounds.TICKS_S, "its server keeps what was learnt of it"),
        restarted=bounds.untouched(bounds.START_S + bounds.TICKS_S, "its server keeps what was learnt of it"),
    ),
    _Part(
        name="server-1",
        which=chosen.named("server-1"),
        killed=bounds.untouched(
            bounds.FAIL_TIMEOUT_S + bounds.TICKS_S,
            "requests are tried elsewhere at once; it is left out for 10 s at a time (fail_timeout_s)",
        ),
        paused=bounds.tried_elsewhere(
            bounds.READ_TIMEOUT_S,
            bounds.FAIL_TIMEOUT_S + bounds.TICKS_S,
            "a request waits for proxy_read_timeout (3 s), and is then tried on another server",
        ),
        restarted=bounds.untouched(
            bounds.FAIL_TIMEOUT_S + bounds.TICKS_S, "as killed, and it ends what it has begun"
        ),
        while_away=_is_left_out,
        while_paused=_is_left_out,
        quick=("killed", "paused"),
    ),
)


def _killed(part: _Part) -> Fault:
    def begin(stage: Stage, notes: dict[str, object]) -> None:
        notes["daemon"] = name = part.which(stage)
        stage.daemon(name).kill()

    def end(stage: Stage, notes: dict[str, object]) -> None:
        stage.daemon(str(notes["daemon"])).start()

    return Fault(
        name=f"{part.name} killed", group="kill -9", begin=begin, end=end, lasts_s=bounds.AWAY_S,
        bound=part.killed, check=part.while_away, quick="killed" in part.quick,
    )  # fmt: skip


def _paused(part: _Part) -> Fault:
    def begin(stage: Stage, notes: dict[str, object]) -> None:
        notes["daemon"] = name = part.which(stage)
        stage.daemon(name).pause()

    def end(stage: Stage, notes: dict[str, object]) -> None:
        stage.daemon(str(notes["daemon"])).resume()

    return Fault(
        name=f"{part.name} paused", group="SIGSTOP for 5 s", begin=begin, end=end, lasts_s=bounds.PAUSE_S,
        bound=part.paused, check=part.while_paused, quick="paused" in part.quick,
    )  # fmt: skip


def _restarted(part: _Part) -> Fault:
    def begin(stage: Stage, _notes: dict[str, object]) -> None:
        daemon = stage.daemon(part.which(stage))
        daemon.stop()
        daemon.start()

    return Fault(
        name=f"{part.name} restarted", group="restart in order", begin=begin, end=nothing, lasts_s=0.0,
        bound=part.restarted, quick="restarted" in part.quick,
    )  # fmt: skip


def nothing(_stage: Stage, _notes: dict[str, object]) -> None:
    """Undo nothing: the fault is over with its beginning."""


def faults() -> list[Fault]:
    """Return the faults of all daemons but nginx, by kind."""
    return [make(part) for make in (_killed, _paused, _restarted) for part in _PARTS]
