"""Memcached full, slow and flushed; Redis read-only, full, slow and wiped (I/O by the stage).

Killed, paused and restarted they are in `process_faults`.
"""

from collections.abc import Mapping, Sequence
from random import Random

from steelyard_loadtest.machine.errors import ProgramError

from steelyard_resilience.chaos.fault import Act, Action, Notes
from steelyard_resilience.chaos.faults.cluster_state import RepeatInBackground, leader, put, stop_repeating
from steelyard_resilience.stage.stage import Stage

SMALL = ("-m", "2")
"""Megabytes, the least that Memcached takes. Each size of slot has one even so; our values have some five."""

SIZES = (200, 1600)
"""Bytes of a junk item, around those of our values: reports 300, samples and tables of three servers 600."""

AT_ONCE, EACH_S = 500, 0.05
"""10,000 items a second, of ten sizes of slot alike: what is two seconds old is pushed out."""

BATCHES = 160
"""80,000 items: more than the 1 MB that each size of slot has, so that not one is left."""


def _junk(random: Random) -> bytes:
    least, most = SIZES
    parts = []
    for _ in range(AT_ONCE):
        # Slots grow by a factor, so this gives each size of slot as many items.
        size = int(least * (most / least) ** random.random())
        parts.append(b"set junk-%d 0 0 %d noreply\r\n%s" % (random.getrandbits(48), size, b"j" * size))
    return b"\r\n".join(parts)


def _restart(stage: Stage, *extra: str) -> None:
    daemon = stage.daemon("memcached")
    daemon.stop()
    daemon.start(*extra)


def fill_memcached(*, evicting: bool) -> Action:
    """Fill up a small Memcached, which pushes out what is old, or (-M) stores nothing more."""

    def begin(stage: Stage, notes: Notes) -> None:
        _restart(stage, *SMALL, *([] if evicting else ["-M"]))
        random = Random(1)

        def write() -> None:
            stage.memcached_command(_junk(random))

        for _ in range(0 if evicting else BATCHES):
            write()
        notes["writer"] = RepeatInBackground(write, interval_s=EACH_S)

    def end(stage: Stage, notes: Notes) -> None:
        try:
            stop_repeating(stage, notes)
        finally:
            _restart(stage)

    return Action(begin=begin, end=end, check=_evicts if evicting else _stores_nothing)


def _evicts(stage: Stage, _notes: Mapping[str, object]) -> str | None:
    for line in stage.memcached_command("stats").splitlines():
        words = line.split()
        if words[:2] == [b"STAT", b"evictions"]:
            return None if int(words[2]) else "Memcached was not full: nothing was evicted"
    raise ProgramError("memcached tells no evictions")


def _stores_nothing(stage: Stage, _notes: Mapping[str, object]) -> str | None:
    try:
        put(stage, "probe", b"p" * 600)
    except ProgramError:
        return None
    return "Memcached was not full: it stored a value"


def flush_memcached() -> Action:
    """Empty Memcached."""

    def begin(stage: Stage, _notes: Notes) -> None:
        answer = stage.memcached_command("flush_all")
        if not answer.startswith(b"OK"):
            raise ProgramError(f"memcached does not flush: {answer[:100]!r}")

    return Action(begin=begin)


def delay_answers(store: str, delay_s: float | str | None = None, *, same_leader: bool = False) -> Action:
    """Let a store's answers be so late; None: not come at all; `drip`: a byte a second.

    same_leader: nobody else may lead.
    """

    def begin(stage: Stage, notes: Notes) -> None:
        notes["leader"] = leader(stage) if same_leader else None
        stage.slow(store, delay_s)

    def end(stage: Stage, _notes: Notes) -> None:
        stage.slow(store, 0.0)

    def still_led(stage: Stage, notes: Mapping[str, object]) -> str | None:
        leading = stage.leader()
        if leading == notes["leader"]:
            return None
        return f"{notes['leader']} led, and now {leading or 'nobody'} does"

    return Action(begin=begin, end=end, check=still_led if same_leader else None)


def refuse_writes(begin: Sequence[str], end: Sequence[str]) -> Action:
    """Give Redis a command after which it takes no writes, and one that undoes it."""
    return Action(begin=_tell_redis(begin), end=_tell_redis(end), check=_takes_no_writes)


def wipe_redis() -> Action:
    """Empty Redis."""
    return Action(begin=_tell_redis(["FLUSHALL"]))


def _tell_redis(parts: Sequence[str]) -> Act:
    def act(stage: Stage, _notes: Notes) -> None:
        answer = stage.redis_command(*parts)
        if b"OK" not in answer:
            raise ProgramError(f"redis answers {answer[:200]!r} to {' '.join(parts)}")

    return act


def _takes_no_writes(stage: Stage, _notes: Mapping[str, object]) -> str | None:
    answer = stage.redis_command("SET", "probe", "1")
    return f"Redis took a write: {answer[:100]!r}" if b"OK" in answer else None
