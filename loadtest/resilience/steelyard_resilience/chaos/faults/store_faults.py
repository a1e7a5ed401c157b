"""Memcached full, slow and flushed; Redis read-only, full, slow and wiped (I/O by the stage).

`process_faults` kills, pauses and restarts them.
"""

import re
from collections.abc import Sequence
from functools import partial
from random import Random

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.repeating import repeating

from steelyard_resilience.chaos.fault import Lasting, action
from steelyard_resilience.chaos.faults.cluster_state import leader, put
from steelyard_resilience.stage.hosts import CONTROLLERS
from steelyard_resilience.stage.stage import Stage

SMALL = ("-m", "2")
"""Megabytes, Memcached's minimum. Even so each slab class has 1 MB, and our values use some five classes."""

SIZES = (200, 1600)
"""Bytes of a junk item, around those of our values: reports 300, samples and tables of three servers 600."""

AT_ONCE, EACH_S = 500, 0.05
"""10,000 items a second, spread over ten slab classes: items older than two seconds are evicted."""

BATCHES = 160
"""80,000 items: more than the 1 MB of each slab class, so that no slot is free."""


def _junk(random: Random) -> bytes:
    least, most = SIZES
    parts = []
    for _ in range(AT_ONCE):
        # Slab classes grow by a factor, so this gives each class as many items.
        size = int(least * (most / least) ** random.random())
        parts.append(b"set junk-%d 0 0 %d noreply\r\n%s" % (random.getrandbits(48), size, b"j" * size))
    return b"\r\n".join(parts)


@action
def fill_memcached(*, evicting: bool, stage: Stage) -> Lasting:
    """Fill up a small Memcached, which evicts old items, or (-M) stores nothing more."""
    random, memcached = Random(1), stage.daemon("memcached")

    def write() -> None:
        stage.memcached_command(_junk(random))

    try:
        memcached.restart(*SMALL, *([] if evicting else ["-M"]))
        for _ in range(0 if evicting else BATCHES):
            write()
        with repeating(write, interval_s=EACH_S):
            yield partial(_evicts if evicting else _stores_nothing, stage)
    finally:
        memcached.restart()


def _evicts(stage: Stage) -> str | None:
    evictions = re.search(rb"^STAT evictions (\d+)", stage.memcached_command("stats"), re.MULTILINE)
    if evictions is None:
        raise ProgramError("memcached's stats have no evictions")
    return None if int(evictions[1]) else "Memcached was not full: nothing was evicted"


def _stores_nothing(stage: Stage) -> str | None:
    try:
        put(stage, "probe", b"p" * 600)
    except ProgramError:
        return None
    return "Memcached was not full: it stored a value"


@action
def flush_memcached(*, stage: Stage) -> Lasting:
    """Empty Memcached."""
    answer = stage.memcached_command("flush_all")
    if not answer.startswith(b"OK"):
        raise ProgramError(f"memcached does not flush: {answer[:100]!r}")
    yield None


@action
def delay_answers(
    store: str, delay_s: float | str | None = None, *, same_leader: bool = False, stage: Stage
) -> Lasting:
    """Delay a store's answers; None: hold all of them back; `drip`: a byte a second.

    store: a store, or `controllers` for both controllers' answers to Envoy. same_leader: leadership may not
    change.
    """
    late = CONTROLLERS if store == "controllers" else [store]
    led = leader(stage) if same_leader else None
    for name in late:
        stage.slow(name, delay_s)

    def check() -> str | None:
        leading = stage.leader()
        return None if leading == led else f"the leader was {led}, and is now {leading or 'no controller'}"

    yield check if same_leader else None
    for name in late:
        stage.slow(name, 0.0)


@action
def refuse_writes(begin: Sequence[str], end: Sequence[str], *, stage: Stage) -> Lasting:
    """Make Redis refuse writes by one command, and accept them again by another."""

    def check() -> str | None:
        try:
            stage.redis_command("SET", "probe", "1")
        except ProgramError:
            return None
        return "Redis accepted a write"

    stage.redis_command(*begin)
    yield check
    stage.redis_command(*end)


@action
def wipe_redis(*, stage: Stage) -> Lasting:
    """Empty Redis."""
    stage.redis_command("FLUSHALL")
    yield None
