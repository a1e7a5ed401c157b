"""Memcached full, slow and flushed (I/O by the stage). Killed, paused and restarted it is in `processes`."""

from collections.abc import Mapping
from random import Random

from steelyard_loadtest.chaos.faults import bounds, stored
from steelyard_loadtest.chaos.faults.processes import nothing
from steelyard_loadtest.chaos.faults.steadily import Steadily
from steelyard_loadtest.chaos.model import Bound, Fault
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.stage.stage import Stage

GROUP = "Memcached"

SMALL = ("-m", "2")
"""Megabytes, the least that it takes. Each size of slot has one even so; our values have some five sizes."""

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


def _fill(stage: Stage, notes: dict[str, object]) -> None:
    random = Random(1)
    notes["writer"] = Steadily(lambda: _write_junk(stage, random), interval_s=EACH_S)


def _write_junk(stage: Stage, random: Random) -> None:
    stage.memcached_command(_junk(random))


def _evicting(stage: Stage, notes: dict[str, object]) -> None:
    _restart(stage, *SMALL)
    _fill(stage, notes)


def _out_of_memory(stage: Stage, notes: dict[str, object]) -> None:
    _restart(stage, *SMALL, "-M")
    random = Random(1)
    for _ in range(BATCHES):
        _write_junk(stage, random)
    _fill(stage, notes)


def _empty(stage: Stage, notes: dict[str, object]) -> None:
    try:
        Steadily.stop_in(notes)
    finally:
        _restart(stage)


def _evicts(stage: Stage, _notes: Mapping[str, object]) -> str | None:
    return None if stored.figure(stage, "evictions") > 0 else "Memcached was not full: nothing was evicted"


def _stores_nothing(stage: Stage, _notes: Mapping[str, object]) -> str | None:
    try:
        stored.put(stage, "probe", b"p" * 600)
    except ProgramError:
        return None
    return "Memcached was not full: it stored a value"


def _slow(delay_s: float | None, words: str, bound: Bound, *, quick: bool = False) -> Fault:
    def begin(stage: Stage, _notes: dict[str, object]) -> None:
        stage.slow("memcached", delay_s)

    return Fault(
        name=f"memcached {words}", group=GROUP, begin=begin, end=_fast, lasts_s=bounds.AWAY_S, bound=bound,
        quick=quick,
    )  # fmt: skip


def _fast(stage: Stage, _notes: dict[str, object]) -> None:
    stage.slow("memcached", 0.0)


def _flush(stage: Stage, _notes: dict[str, object]) -> None:
    answer = stage.memcached_command("flush_all")
    if not answer.startswith(b"OK"):
        raise ProgramError(f"memcached does not flush: {answer[:100]!r}")


def faults() -> list[Fault]:
    """Return the faults of Memcached that are its own."""
    silent = bounds.untouched(
        bounds.AGENT_RETRIES_S + bounds.TICKS_S,
        "nginx gives it 0.3 s and asks the controllers; an agent tries again within 8 s",
    )
    return [
        Fault(
            name="memcached full, evicting", group=GROUP, begin=_evicting, end=_empty, lasts_s=bounds.AWAY_S,
            bound=bounds.untouched(
                bounds.ANSWERS_AGAIN_S + bounds.TICKS_S,
                "samples and tables are pushed out before they are read; nginx asks the controllers",
            ),
            check=_evicts,
        ),
        Fault(
            name="memcached full, out of memory", group=GROUP, begin=_out_of_memory, end=_empty,
            lasts_s=bounds.AWAY_S,
            bound=bounds.untouched(
                bounds.AGENT_RETRIES_S + bounds.TICKS_S,
                "nothing can be written; nginx asks the controllers; an agent tries again within 8 s",
            ),
            check=_stores_nothing,
        ),
        _slow(0.2, "slow by 0.2 s", bounds.untouched(bounds.ANSWERS_AGAIN_S + bounds.TICKS_S)),
        _slow(2.0, "slow by 2 s", silent),
        _slow(None, "hangs", silent),
        Fault(
            name="memcached flushed", group=GROUP, begin=_flush, end=nothing, lasts_s=0.0,
            bound=bounds.untouched(bounds.TICKS_S, "the next tick fills it again"), quick=True,
        ),
    ]  # fmt: skip
