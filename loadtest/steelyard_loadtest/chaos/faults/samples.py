"""Samples and traffic reports in Memcached replaced: by garbage, and by old ones (I/O by the stage).

An old one is of an earlier run of its sender, so that its sequence number tells nothing.
"""

import time
from collections.abc import Callable, Mapping
from typing import cast

from steelyard_agent import signature

from steelyard_loadtest.chaos.faults import bounds, forgery, seen, stored
from steelyard_loadtest.chaos.faults.steadily import Steadily
from steelyard_loadtest.chaos.model import Bound, Fault
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.stage.stage import Stage

GROUP = "samples and reports in Memcached"

EACH_S = 0.05

PEER = "server-1"

ARRIVES_WITHIN_S = 10.0
"""A restarted sender's first message is there."""

LOOK_S = 0.1

SEEN_S = 1.5
"""A tick and a half: the leader has read what stands in Memcached, and knows the new run."""

Prepared = Callable[[Stage], bytes]
"""Makes ready, and gives the false value."""


def _garbage(_stage: Stage) -> bytes:
    return forgery.garbage(500)


def _sample_of_another(stage: Stage) -> bytes:
    return forgery.signed_by_another(forgery.split(stored.get(stage, stored.sample(PEER)))[1])


def _old_sample(stage: Stage) -> bytes:
    value = stored.get(stage, stored.sample(PEER))
    agent = stage.daemon("agent-1")
    agent.stop()
    agent.start()
    _wait_for_another_run(stage, stored.sample(PEER), value)
    time.sleep(SEEN_S)
    return value


def _old_report(stage: Stage) -> bytes:
    # A restart of nginx would lose requests; so the key's holder makes what could be put back.
    if stage.key is None:
        raise ProgramError("an old report that is signed needs a stage with a key")
    text = forgery.split(stored.get(stage, stored.REPORT))[1]
    return signature.sign(stage.key, forgery.of_an_hour_ago(text))


def _wait_for_another_run(stage: Stage, key: str, value: bytes) -> None:
    until_s = time.monotonic() + ARRIVES_WITHIN_S
    while time.monotonic() < until_s:
        now = stored.found(stage, key)  # an agent that begins may find nothing to measure yet
        if now is not None and forgery.run_of(now) != forgery.run_of(value):
            return
        time.sleep(LOOK_S)
    raise ProgramError(f"{key} was not written by another run of its sender")


def _replaced(
    name: str, key: str, prepared: Prepared, refused_as: str, bound: Bound, *, quick: bool = False
) -> Fault:
    def begin(stage: Stage, notes: dict[str, object]) -> None:
        false = prepared(stage)
        notes["refused"] = seen.refused_values(stage, refused_as)
        notes["writer"] = Steadily(lambda: stored.put(stage, key, false), interval_s=EACH_S)

    def end(_stage: Stage, notes: dict[str, object]) -> None:
        Steadily.stop_in(notes)

    def check(stage: Stage, notes: Mapping[str, object]) -> str | None:
        if seen.refused_values(stage, refused_as) <= cast(int, notes["refused"]):
            return f"the leader refused nothing as {refused_as}: {seen.overview(stage)['refused']['count']}"
        return None

    return Fault(
        name=name, group=GROUP, begin=begin, end=end, lasts_s=bounds.PAUSE_S, bound=bound, check=check,
        quick=quick,
    )  # fmt: skip


def faults() -> list[Fault]:
    """Return the false samples and reports."""
    kept = "; the server keeps what was learnt of it"
    return [
        _replaced(
            "sample: garbage", stored.sample(PEER), _garbage, "unsigned",
            bounds.untouched(bounds.TICKS_S, "refused as unsigned" + kept),
        ),
        _replaced(
            "sample: a wrong signature", stored.sample(PEER), _sample_of_another, "signature",
            bounds.untouched(bounds.TICKS_S, "refused as signature" + kept),
        ),
        _replaced(
            "sample: of an earlier run", stored.sample(PEER), _old_sample, "replayed",
            bounds.untouched(bounds.TICKS_S, "refused as replayed" + kept), quick=True,
        ),
        _replaced(
            "report: of an earlier run", stored.REPORT, _old_report, "replayed",
            bounds.untouched(bounds.TICKS_S, "refused as replayed; nothing is learnt meanwhile"),
        ),
    ]  # fmt: skip
