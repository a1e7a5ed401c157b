"""The newest message of a sender: an older one, put back, is refused as a replay.

Pure. A sender distinguishes its runs by `boot` and counts its messages within a
run by `seq`. So the number shows an older message of the same run; no fault if
the next ones merely overtook it on its way. A run not seen before is a restart,
or an old recording. It is a replay

- when another run has replaced it: among two that send in turn, the later one
  counts, and the earlier one again only after the later one has fallen silent.
  A few intervals are enough if its message is newer, by its sender's clock,
  than every accepted one. A recording of an ended run is older than those;
- when the sender's own clock dates it before the last message of this sender,
  and ours dates it more than `LENIENCE_MS` ago. The second half is for a sender
  whose clock was ahead and has been set right. Two clocks meet only here, and
  only to accept more.

The sender's clock counts only if values are signed: otherwise a forger can write
any time, and a wrong clock would cost samples.
"""

from collections.abc import Sequence

from steelyard_protocol.sample_reader import Sample
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.wire import Refused

# A sample and a report are read within seconds; clocks without NTP drift a further minute in a month.
LENIENCE_MS = 60_000

# Nobody restarts a sender this often within the minute that `LENIENCE_MS` leaves open.
RUNS_KEPT = 16

# A report stays in Memcached for 10 s, a sample for three intervals: a later value has another writer.
SILENT_S = 10.0

# A sender that is slower than this may lose two messages before it counts as silent.
SILENT_INTERVALS = 3

# A write that hangs while its sender goes on is late by one or two at the usual interval: no alarm for that.
MOST_OVERTAKEN_MESSAGES = 3

Run = tuple[str, int]
"""A run that was replaced, and the number of its last accepted message."""


Message = SampleRecord | Sample | TrafficReport
"""A message with its place in its sender's life: a run, a number in it, an interval."""


def is_silent(last: Message, silence_s: float) -> bool:
    """Return whether a sender has stopped: `last` is its last message, `silence_s` seconds ago."""
    return silence_s > max(SILENT_S, SILENT_INTERVALS * last.interval_s)


def gives_way(last: Message, silence_s: float, *, at_ms: int, heard_ms: int | None) -> bool:
    """Return whether an earlier run counts again, with a message of `at_ms` by its sender's clock.

    `last` is the sender's last accepted message, `silence_s` seconds ago; `heard_ms` is its latest time.
    """
    is_newer = heard_ms is not None and at_ms > heard_ms
    return is_silent(last, silence_s) or (is_newer and silence_s > SILENT_INTERVALS * last.interval_s)


def is_known(last: Message, message: Message) -> bool:
    """Return whether a message of the accepted run was read before, or overtaken on its way."""
    return 0 <= last.seq - message.seq <= MOST_OVERTAKEN_MESSAGES


def within_run(last: Message, message: Message) -> Refused | None:
    """Return why a message of the accepted run is a replay; None if it is not."""
    if message.seq >= last.seq:
        return None
    return Refused(
        "replayed", f"it is number {message.seq} of its run, after number {last.seq}: an old one is back"
    )


def of_an_ended_run(
    message: Message, *, ended: Sequence[Run], believed: Message, silent: bool
) -> Refused | None:
    """Return why a message of a run that the `believed` one replaced is a replay."""
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
        f"its sender's clock dates it {(heard_ms - at_ms) / 1000:.0f} s before the sender's last message: "
        "an old one is back, or that clock was set back: set it right",
    )


def replaced(ended: Sequence[Run], old: Message, new: Message) -> tuple[Run, ...]:
    """Return the ended runs after the run of `new` takes the place of the run of `old`."""
    kept = [run for run in ended if run[0] not in (old.boot, new.boot)]
    return (*kept, (old.boot, old.seq))[-RUNS_KEPT:]
