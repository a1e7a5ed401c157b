"""Redis read-only, full, slow and wiped (I/O by the stage). Killed and the like it is in `processes`."""

from collections.abc import Mapping

from steelyard_loadtest.chaos.faults import bounds, chosen
from steelyard_loadtest.chaos.faults.processes import nothing
from steelyard_loadtest.chaos.model import Fault
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.stage.stage import Stage

GROUP = "Redis"

NOBODY = ("192.0.2.1", "6379")
"""A master that is not there (RFC 5737): Redis keeps its data, and takes no writes."""


def _told(stage: Stage, *parts: str) -> None:
    answer = stage.redis_command(*parts)
    if b"OK" not in answer:
        raise ProgramError(f"redis answers {answer[:200]!r} to {' '.join(parts)}")


def _takes_no_writes(stage: Stage, _notes: Mapping[str, object]) -> str | None:
    answer = stage.redis_command("SET", "probe", "1")
    return f"Redis took a write: {answer[:100]!r}" if b"OK" in answer else None


def _still_led(stage: Stage, notes: Mapping[str, object]) -> str | None:
    leading = stage.leader()
    return (
        None if leading == notes["leader"] else f"{notes['leader']} led, and now {leading or 'nobody'} does"
    )


def _read_only(stage: Stage, _notes: dict[str, object]) -> None:
    _told(stage, "REPLICAOF", *NOBODY)


def _own_master(stage: Stage, _notes: dict[str, object]) -> None:
    _told(stage, "REPLICAOF", "NO", "ONE")


def _no_writes(stage: Stage, _notes: dict[str, object]) -> None:
    # It wants a replica, and has none: a master that answers and refuses, as one with a full disk does.
    _told(stage, "CONFIG", "SET", "min-replicas-to-write", "1")


def _writes(stage: Stage, _notes: dict[str, object]) -> None:
    _told(stage, "CONFIG", "SET", "min-replicas-to-write", "0")


def _full(stage: Stage, _notes: dict[str, object]) -> None:
    # With the policy that it has, noeviction. Less than Redis has in use when it is empty.
    _told(stage, "CONFIG", "SET", "maxmemory", "100kb")


def _roomy(stage: Stage, _notes: dict[str, object]) -> None:
    _told(stage, "CONFIG", "SET", "maxmemory", "0")


def _wipe(stage: Stage, _notes: dict[str, object]) -> None:
    _told(stage, "FLUSHALL")


def _slow(delay_s: float | None, words: str, *, is_led_on: bool = True, quick: bool = False) -> Fault:
    def begin(stage: Stage, notes: dict[str, object]) -> None:
        notes["leader"] = chosen.leader(stage)
        stage.slow("redis", delay_s)

    def end(stage: Stage, _notes: dict[str, object]) -> None:
        stage.slow("redis", 0.0)

    return Fault(
        name=f"redis {words}", group=GROUP, begin=begin, end=end, lasts_s=bounds.AWAY_S,
        check=_still_led if is_led_on else None,
        bound=bounds.untouched(
            bounds.TAKEOVER_S, "controllers give it 0.25 s; the leader goes on, since nobody else can lead"
        ),
        quick=quick,
    )  # fmt: skip


def faults() -> list[Fault]:
    """Return the faults of Redis that are its own."""
    return [
        Fault(
            name="redis read-only", group=GROUP, begin=_read_only, end=_own_master, lasts_s=bounds.AWAY_S,
            check=_takes_no_writes,
            bound=bounds.untouched(
                bounds.TAKEOVER_S, "the lease cannot be prolonged; the leader goes on from memory"
            ),
        ),
        Fault(
            name="redis takes no writes", group=GROUP, begin=_no_writes, end=_writes, lasts_s=bounds.AWAY_S,
            check=_takes_no_writes, quick=True,
            bound=bounds.untouched(
                bounds.TAKEOVER_S, "the lease cannot be prolonged; the leader goes on from memory"
            ),
        ),
        Fault(
            name="redis full", group=GROUP, begin=_full, end=_roomy, lasts_s=bounds.AWAY_S,
            check=_takes_no_writes,
            bound=bounds.untouched(bounds.TAKEOVER_S, "nothing new is kept; the leader goes on from memory"),
        ),
        # A new connection needs several answers within 0.25 s, so the lease may go to the standby.
        _slow(0.2, "slow by 0.2 s", is_led_on=False),
        _slow(2.0, "slow by 2 s"),
        _slow(None, "hangs"),
        Fault(
            name="redis wiped", group=GROUP, begin=_wipe, end=nothing, lasts_s=0.0,
            bound=bounds.untouched(bounds.TAKEOVER_S, "whoever led writes back what it knows"),
        ),
    ]  # fmt: skip
