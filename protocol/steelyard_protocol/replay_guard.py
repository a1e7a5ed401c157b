"""Which message of a sender is its newest: what was said before, or long ago, is refused as a replay.

Pure. A sender tells its runs apart by `boot` and counts its messages within a
run by `seq`; so an older one of the same run is known by its number, and not
worth a word when it was only overtaken by the next ones on its way. A run that
was not seen before is a restart, or a recording of long ago. It is a replay

- when another run has replaced it: of two that send in turn the later one is
  believed, and the earlier one again only when that has fallen silent;
- when it was said before what this sender said last, by the sender's own
  clock, and is more than `LENIENCE_MS` old by ours. The second half is for a
  sender whose clock was ahead and has been set right. It is the only place
  where two clocks meet, and it only ever lets more pass.

The sender's clock is looked at only where values are signed: elsewhere a
forger writes what he likes, and a clock that is wrong would cost samples.
"""

from collections.abc import Sequence

from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.wire import Refused

# A sample and a report are read within seconds; a minute more is what clocks without NTP drift in a month.
LENIENCE_MS = 60_000

# Nobody restarts a sender so often within the minute that `LENIENCE_MS` leaves open.
RUNS_KEPT = 16

# A report lies in Memcached for 10 s, a sample for three intervals: what is there after that, another wrote.
SILENT_S = 10.0

# A sender that is slower than that may lose two messages before it counts as silent.
SILENT_INTERVALS = 3

# A write that hangs while its sender goes on is late by one or two at the usual interval; no alarm for that.
OVERTAKEN = 3

Run = tuple[str, int]
"""A run that was replaced, and the number of the last message that was believed of it."""


Message = SampleRecord | TrafficReport
"""Whatever says its place in its sender's life: a run, a number in it, an interval."""


def is_silent(last: Message, silence_s: float) -> bool:
    """Tell whether a sender that sent `last` so long ago has stopped."""
    return silence_s > max(SILENT_S, SILENT_INTERVALS * last.interval_s)


def is_known(last: Message, message: Message) -> bool:
    """Tell whether a message of the run that is believed was read before, or overtaken on its way."""
    return 0 <= last.seq - message.seq <= OVERTAKEN


def within_run(last: Message, message: Message) -> Refused | None:
    """Return why a message of the run that is believed is a replay; None: it is not."""
    if message.seq >= last.seq:
        return None
    return Refused(
        "replayed", f"it is number {message.seq} of its run, and {last.seq} came before: an old one is back"
    )


def of_an_ended_run(
    message: Message, *, ended: Sequence[Run], believed: Message, silent: bool
) -> Refused | None:
    """Return why a message of a run that was replaced by the one that is `believed` is a replay."""
    last_seq = next((seq for boot, seq in ended if boot == message.boot), None)
    if last_seq is None or (silent and message.seq > last_seq):
        return None
    return Refused(
        "replayed",
        f"it is of the run {message.boot}, which the run {believed.boot} has replaced: an old one is back, "
        "or two programs share this name: give each its own",
    )


def of_long_ago(at_ms: int, *, heard_ms: int | None, now_ms: int) -> Refused | None:
    """Return why a run's first message is a replay by its time; `heard_ms` is the sender's last time."""
    if heard_ms is None or at_ms >= min(heard_ms, now_ms - LENIENCE_MS):
        return None
    return Refused(
        "replayed",
        f"it was sent {(heard_ms - at_ms) / 1000:.0f} s before what this sender sent last, by its own clock: "
        "an old one is back, or that clock was set back: set it right",
    )


def replaced(ended: Sequence[Run], old: Message, new: Message) -> tuple[Run, ...]:
    """Return the ended runs when the run of `new` takes the place of that of `old`."""
    kept = [run for run in ended if run[0] not in (old.boot, new.boot)]
    return (*kept, (old.boot, old.seq))[-RUNS_KEPT:]
