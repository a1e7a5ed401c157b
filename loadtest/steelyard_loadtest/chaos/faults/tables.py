"""The weight table in Memcached replaced by what it must not be, again and again (I/O by the stage).

The leader puts the real one back each second. So the false one is written 20 times a second, and the real one
hardly ever stands there.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from steelyard_agent import signature

from steelyard_loadtest.chaos.faults import bounds, forgery, seen, stored
from steelyard_loadtest.chaos.faults.steadily import Steadily
from steelyard_loadtest.chaos.model import Fault
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.stage.stage import Stage

GROUP = "weight table in Memcached"

EACH_S = 0.05

AHEAD = 3
"""Generations: later than what nginx serves by then, and overtaken by the leader within three ticks."""

BEHIND = 3
"""Generations: what was captured is refused for its age, and not because it is being served."""

PATIENCE_S, LOOK_S = 6.0, 0.1
"""The leader publishes each second, nginx fetches each half; 10,000 servers are decoded in slices."""

LOOKED_LATE_S = 2.0
"""A page of 10,000 servers takes most of a second, and the next look is a second later (observer)."""

Forged = Callable[[Stage, bytes], bytes]
"""Makes the false value of the real one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forgery:
    """A false table, and what nginx must refuse it as."""

    name: str
    of: Forged
    refused_as: str
    why: str = ""
    quick: bool = False


def _older(stage: Stage, value: bytes) -> bytes:
    """Return the value itself, once the leader's are later than it."""
    before: int = json.loads(_text(value))["generation"]

    def is_older() -> bool:
        now: int = json.loads(_text(stored.get(stage, stored.TABLE)))["generation"]
        return now - before >= BEHIND

    _wait_until(is_older, "the leader published no later table")
    return value


def _text(value: bytes) -> bytes:
    return forgery.split(value)[1]


_FORGERIES = (
    _Forgery(
        name="garbage", of=lambda _stage, _value: forgery.garbage(500), refused_as="unsigned"
    ),
    _Forgery(
        name="a megabyte of zeros", refused_as="unsigned",
        of=lambda _stage, _value: bytes(forgery.MEGABYTE),
    ),
    _Forgery(
        name="an older generation", of=_older, refused_as="older", why="signed by the leader", quick=True
    ),
    _Forgery(
        name="a wrong signature", refused_as="signature",
        of=lambda _stage, value: forgery.signed_by_another(forgery.steering(_text(value))),
    ),
    _Forgery(
        name="no signature", refused_as="unsigned",
        of=lambda _stage, value: forgery.steering(_text(value)),
    ),
    _Forgery(
        name="10,000 peers, a wrong signature", refused_as="signature",
        of=lambda _stage, value: forgery.signed_by_another(forgery.with_many_peers(_text(value), ahead=1000)),
    ),
)  # fmt: skip


def _replaced(forged: _Forgery) -> Fault:
    def begin(stage: Stage, notes: dict[str, object]) -> None:
        false = forged.of(stage, stored.get(stage, stored.TABLE))
        notes["refused"] = seen.refused_tables(stage, forged.refused_as)
        notes["writer"] = Steadily(lambda: stored.put(stage, stored.TABLE, false), interval_s=EACH_S)

    def check(stage: Stage, notes: Mapping[str, object]) -> str | None:
        if seen.refused_tables(stage, forged.refused_as) <= cast(int, notes["refused"]):
            return f"nginx refused no table as {forged.refused_as}: {seen.served(stage)['refused']}"
        return None

    why = "; ".join(part for part in (forged.why, f"refused as {forged.refused_as}") if part)
    return Fault(
        name=f"table: {forged.name}", group=GROUP, begin=begin, end=_stop, lasts_s=bounds.PAUSE_S,
        check=check,
        bound=bounds.untouched(bounds.TICKS_S, f"{why}; nginx asks the controllers"), quick=forged.quick,
    )  # fmt: skip


def _huge(stage: Stage, notes: dict[str, object]) -> None:
    if stage.key is None:
        raise ProgramError("a signed table needs a stage with a key")
    text = forgery.with_many_peers(_text(stored.get(stage, stored.TABLE)), ahead=AHEAD, state="drain")
    false = signature.sign(stage.key, text)
    notes["writer"] = Steadily(lambda: stored.put(stage, stored.TABLE, false), interval_s=EACH_S)
    _wait_until(lambda: _serves_huge(stage), "nginx did not take the table of 10,000 peers")


def _serves_huge(stage: Stage) -> bool:
    try:
        return len(seen.served(stage)["peers"]) == forgery.HUGE
    except ProgramError:
        return False  # a page of 10,000 rows may take longer than a look is given


def _wait_until(true: Callable[[], bool], otherwise: str) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > until_s:
            raise ProgramError(otherwise)
        time.sleep(LOOK_S)


def _stop(_stage: Stage, notes: dict[str, object]) -> None:
    Steadily.stop_in(notes)


def faults() -> list[Fault]:
    """Return the false tables, and one that only the key's holder can write."""
    return [
        *(_replaced(forged) for forged in _FORGERIES),
        Fault(
            name="table: 10,000 peers, signed", group=GROUP, begin=_huge, end=_stop, lasts_s=bounds.PAUSE_S,
            bound=bounds.untouched(
                bounds.TICKS_S + LOOKED_LATE_S,
                "only the key's holder can write it: the real servers, and others that are drained; it is "
                "served until the leader's tables are later. Looks at so many servers are up to 2 s apart",
            ),
        ),
    ]  # fmt: skip
