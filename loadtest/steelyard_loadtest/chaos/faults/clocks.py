"""The clock of one host set an hour forward or back, and put right again (I/O by the stage)."""

import email.utils
import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steelyard_loadtest.chaos.faults import bounds, chosen, forgery, stored
from steelyard_loadtest.chaos.faults.chosen import Chosen
from steelyard_loadtest.chaos.model import Bound, Fault
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.stage.stage import Stage

GROUP = "clock of one host"

HOUR_S = 3600.0

NEAR_S = 60.0
"""What a daemon says of the time is some seconds old; an hour is not mistaken for it."""

Said = Callable[[Stage], float]
"""What a daemon takes the time for, in seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clock:
    """A host, by a daemon on it; what that daemon says of the time (None: it goes by no such clock)."""

    name: str
    which: Chosen
    says: Said | None
    bound: Bound


def _nginx_says(stage: Stage) -> float:
    with urllib.request.urlopen(f"{stage.url}/", timeout=2.0) as answer:  # noqa: S310 - the stage's own
        date = answer.headers["Date"]
    return email.utils.parsedate_to_datetime(date).timestamp()


def _leader_says(stage: Stage) -> float:
    return _member(stored.get(stage, stored.TABLE), "issued_at_ms") / 1000


def _agent_says(stage: Stage) -> float:
    return _member(stored.get(stage, stored.sample("server-1")), "taken_at_ms") / 1000


def _redis_says(stage: Stage) -> float:
    # RESP: *2, $10, seconds, $n, microseconds.
    digits = [line for line in stage.redis_command("TIME").split() if line.isdigit() and len(line) >= 10]
    if not digits:
        raise ProgramError("redis does not tell the time")
    return float(digits[0])


def _member(value: bytes, name: str) -> float:
    text = forgery.split(value)[1] if not value.startswith(b"{") else value
    return float(json.loads(text)[name])


_CLOCKS = (
    _Clock(
        name="edge", which=chosen.named("nginx"), says=_nginx_says,
        bound=bounds.untouched(
            bounds.ANSWERS_AGAIN_S, "until the next fetch, half a second later, its table's age is wrong"
        ),
    ),
    _Clock(
        name="leader", which=chosen.leader, says=_leader_says,
        bound=bounds.untouched(bounds.TICKS_S, "leases and ages go by the monotonic clock"),
    ),
    _Clock(
        name="memcached", which=chosen.named("memcached"), says=None,
        bound=bounds.untouched(bounds.TICKS_S, "goes by the monotonic clock, so that a step does nothing"),
    ),
    _Clock(
        name="redis", which=chosen.named("redis"), says=_redis_says,
        bound=bounds.untouched(bounds.TAKEOVER_S, "an hour forward, the lease has run out: it is taken anew"),
    ),
    _Clock(
        name="server-1", which=chosen.named("agent-1"), says=_agent_says,
        bound=bounds.untouched(bounds.TICKS_S, "samples go by the time at which they arrive"),
    ),
)  # fmt: skip


def _stepped(clock: _Clock, seconds: float, words: str) -> Fault:
    def begin(stage: Stage, notes: dict[str, object]) -> None:
        notes["host"] = host = stage.host_of(clock.which(stage))
        stage.step_clock(host, seconds)

    def end(stage: Stage, notes: dict[str, object]) -> None:
        stage.step_clock(str(notes["host"]), 0.0)

    def check(stage: Stage, _notes: Mapping[str, object]) -> str | None:
        if clock.says is None:
            return None
        off_s = clock.says(stage) - time.time()
        if abs(off_s - seconds) > NEAR_S:
            return f"its clock was not set: it is {off_s:+.0f} s off, not {seconds:+.0f} s"
        return None

    return Fault(
        name=f"{clock.name}: {words}", group=GROUP, begin=begin, end=end, lasts_s=bounds.AWAY_S,
        bound=clock.bound, faketime=True, check=check,
    )  # fmt: skip


def faults() -> list[Fault]:
    """Return each host's clock set forward and back."""
    steps = ((HOUR_S, "an hour forward"), (-HOUR_S, "an hour back"))
    return [_stepped(clock, seconds, words) for clock in _CLOCKS for seconds, words in steps]
