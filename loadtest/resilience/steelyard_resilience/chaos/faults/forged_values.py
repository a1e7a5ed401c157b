"""Values in Memcached replaced by false ones, again and again; and a stranger's changes (I/O).

The false tables, samples and reports are garbage, wrongly signed, or old. Their senders restore the real
values each second. So the fault writes the false value 20 times a second, and readers hardly ever get the
real one. A false table replaces its head, too, because nginx reads the table only if the head is not enough.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.machine.repeating import repeating
from steelyard_protocol import signature, wire

from steelyard_resilience.chaos.fault import Lasting, action
from steelyard_resilience.chaos.faults import cluster_state, forgery
from steelyard_resilience.chaos.faults.cluster_state import REPORT, SAMPLE, TABLE, document, get, nginx_status
from steelyard_resilience.chaos.faults.forgery import text_of
from steelyard_resilience.stage.hosts import PROXY_PORT, UPSTREAM
from steelyard_resilience.stage.stage import Stage, overview

EACH_S = 0.05

BEHIND = 3
"""Generations: nginx must refuse the captured table for its age, not because it is the current one."""

PATIENCE_S = 6.0
"""The leader publishes each second, and nginx fetches twice a second."""

HEAD = wire.head_key(UPSTREAM)

KEYS = {"table": TABLE, "sample": SAMPLE, "report": REPORT}

ARRIVES_WITHIN_S = 10.0
"""Time limit for a restarted sender's first message."""

READ_S = 1.5
"""A tick and a half: the leader has read Memcached by then, and knows the new run."""


@action
def forge(value: str, refused_as: str, *, key: str = "table", stage: Stage) -> Lasting:
    """Write a false value of VALUES over the real one again and again.

    nginx reads tables, the leader everything else; the reader must refuse it as `refused_as`.
    """
    place, reader = KEYS[key], "nginx" if key == "table" else "the leader"
    false = VALUES[value](stage, get(stage, place))
    before = _refused(stage, place).get(refused_as, 0)

    def check() -> str | None:
        counts = _refused(stage, place)
        refused = counts.get(refused_as, 0) > before
        return None if refused else f"{reader} refused nothing as {refused_as}: {counts}"

    with _written(stage, place, false):
        yield check


@action
def drain_by_proxy(*, stage: Stage) -> Lasting:
    """Drain a server again and again without a token, through a proxy on the leader's machine."""
    statuses: set[int] = set()
    path = f"/v1/upstreams/{UPSTREAM}/peers/server-1"

    def drain() -> None:
        statuses.add(stage.ask("PATCH", path, {"state": "drain"}, port=PROXY_PORT)[0])

    with repeating(drain, interval_s=EACH_S):
        yield (
            lambda: None if statuses == {401} else f"a stranger's change is answered with {statuses}, not 401"
        )


def _refused(stage: Stage, key: str) -> Mapping[str, int]:
    document = nginx_status(stage) if key == TABLE else overview(stage)["refused"]
    counts: Mapping[str, int] = document["refused" if key == TABLE else "count"]
    return counts


def _written(stage: Stage, key: str, false: bytes) -> AbstractContextManager[None]:
    def write() -> None:
        for place in (HEAD, key) if key == TABLE else (key,):
            cluster_state.put(stage, place, false)

    return repeating(write, interval_s=EACH_S)


def _old_table(stage: Stage, value: bytes) -> bytes:
    """Return the value unchanged, once the leader's tables are later."""
    before: int = json.loads(text_of(value))["generation"]

    def not_older() -> str | None:
        later = document(stage, TABLE)["generation"] - before
        return None if later >= BEHIND else "the leader published no later table"

    wait_until(not_older, within_s=PATIENCE_S)
    return value


def _old_sample(stage: Stage, value: bytes) -> bytes:
    """Return the value unchanged, once its sender has restarted and begun a new sequence."""
    stage.daemon("agent-1").restart()

    def of_the_same_run() -> str | None:
        now = cluster_state.value_of(stage, SAMPLE)  # a starting agent may have no sample yet
        if now is not None and forgery.run_of(now) != forgery.run_of(value):
            return None
        return f"{SAMPLE} is not yet from another run of its sender"

    wait_until(of_the_same_run, within_s=ARRIVES_WITHIN_S)
    time.sleep(READ_S)
    return value


@action
def outrun_leader(*, stage: Stage) -> Lasting:
    """Give nginx alone a table of a higher term, as if from another leader; later the leader reads it."""
    before = get(stage, TABLE)
    # Begin just after a tick, because nginx fetches twice before the next one.
    wait_until(lambda: "no tick" if get(stage, TABLE) == before else None, within_s=PATIENCE_S)
    table = document(stage, TABLE)
    table["term"] += 1
    value = signature.sign(stage.key, json.dumps(table).encode())
    for key in (HEAD, TABLE):
        cluster_state.put(stage, key, value)
    wait_until(lambda: _before(stage, table["term"]), within_s=PATIENCE_S)
    for key in (HEAD, TABLE):
        stage.memcached_command(f"delete {key}")

    def check() -> str | None:
        causes = overview(stage)["degraded"]
        reported = any("hold a table of term" in line for line in causes)
        return None if reported else f"the leader does not report the higher term: {causes}"

    yield check

    def lasts() -> str | None:
        cluster_state.put(stage, TABLE, value)
        return _before(stage, table["term"] + 1)

    wait_until(lasts, within_s=2 * PATIENCE_S)


def _before(stage: Stage, term: int) -> str | None:
    return None if nginx_status(stage)["term"] >= term else f"nginx has no table of term {term}"


VALUES: Mapping[str, Callable[[Stage, bytes], bytes]] = {
    "garbage": lambda _stage, _value: hashlib.shake_256(b"the same each time").digest(500),
    "zeros": lambda _stage, _value: bytes(forgery.MEGABYTE),
    "signed by another": lambda _stage, value: forgery.signed_by_another(text_of(value)),
    "steering": lambda _stage, value: forgery.steering(text_of(value)),
    "steering, signed by another": lambda _stage, value: forgery.signed_by_another(
        forgery.steering(text_of(value))
    ),
    "10,000 peers, signed by another": lambda _stage, value: forgery.signed_by_another(
        forgery.with_many_peers(text_of(value))
    ),
    "old table": _old_table,
    "old sample": _old_sample,
    # A restart of nginx would lose requests, so the key's holder makes an old report.
    "old report": lambda stage, value: signature.sign(stage.key, forgery.of_an_hour_ago(text_of(value))),
}
"""Makes each false value from the real one."""
