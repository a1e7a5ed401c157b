"""The inbox: the newest sample of each peer and the newest report of each load balancer.

Pure: the time is an argument. Freshness is judged here, by the receiver's own
clock, from the moment at which (boot, seq) changed. The sender's clock only
helps to recognize replays (`replay_guard`). A refused value changes only the
counts and the list of refusals. The end of a message's window is estimated from
both clocks (`sender_offset`), to pair samples with reports.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from steelyard_protocol import derived_keys, replay_guard, sample_reader, traffic_report
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.wire import Reason, Refused

from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.sender_offset import SenderOffset

Message = TypeVar("Message", SampleRecord, TrafficReport)

NO_KEYS = Keyring()

# A sender is silent after this many of its own intervals, or of the controller's ticks, without a message.
SILENT_INTERVALS = 3


class Received(NamedTuple, Generic[Message]):
    """A sender's newest message, with its arrival by the receiver's clock, in seconds.

    clock_ms          the latest time of the sender's own clock
    ended             the sender's earlier runs
    estimated_end_s   the end of the message's window by the receiver's clock
    offset            the bounds of the sender's clock

    It is a tuple because a tick makes ten thousand of them.
    """

    message: Message
    arrived_s: float
    clock_ms: int | None = None
    ended: tuple[replay_guard.Run, ...] = ()
    estimated_end_s: float | None = None
    offset: SenderOffset | None = None

    @property
    def window_end_s(self) -> float:
        """Return the end of its window by the receiver's clock: the estimate, or else the arrival."""
        return self.arrived_s if self.estimated_end_s is None else self.estimated_end_s


def is_silent(
    received: Received[Message] | None, *, now_s: float, tick_s: float, read_since_s: float = -inf
) -> bool:
    """Return whether the sender has missed `SILENT_INTERVALS` of its intervals or of ticks, or never sent.

    Intervals before `read_since_s` do not count: nothing was read then.
    """
    if received is None:
        return True
    since_s = max(received.arrived_s, read_since_s)
    return now_s - since_s > SILENT_INTERVALS * max(received.message.interval_s, tick_s)


@dataclass(frozen=True, slots=True)
class MessageKind(Generic[Message]):
    """One of the two kinds of messages: its decoder, and the places of its sender and time.

    `key_name` returns the name of the sender's signing key for an upstream and a sender.
    """

    name: str
    key_name: Callable[[str, str], str]
    decode: Callable[[bytes], Message | Refused]
    sender: Callable[[Message], str]
    at_ms: Callable[[Message], int]


SAMPLES: MessageKind[SampleRecord] = MessageKind(
    "sample",
    derived_keys.agent,
    sample_reader.decode,
    attrgetter("peer"),
    attrgetter("taken_at_ms"),
)

REPORTS: MessageKind[TrafficReport] = MessageKind(
    "traffic report",
    lambda _, lb: derived_keys.lb(lb),
    traffic_report.decode,
    attrgetter("lb"),
    attrgetter("sent_at_ms"),
)


class ReadContext(NamedTuple):
    """The context of all messages of an upstream in one tick; with a shared key, they must be signed.

    unix_ms          the receiver's clock since 1970; None: senders' clocks are not checked
    last_read_s      the previous read: new messages came later
    synchronized_s   the receiver's monotonic clock less the time since 1970, for the ends of windows
    remembered       senders' clocks as the previous leader saw them
    """

    upstream: str
    now_s: float
    keys: Keyring = NO_KEYS
    unix_ms: int | None = None
    last_read_s: float = -inf
    synchronized_s: float | None = None
    remembered: Mapping[str, int] = {}


Values = Mapping[str, bytes | None]
"""The raw value by sender; None: the key is absent."""

SenderClocks = Mapping[str, Mapping[str, int]]
"""The latest time of each sender's own clock, ms since 1970: by kind (samples, reports), then by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """All received messages of one upstream, and the refused ones.

    refusals     by source, in the last tick
    refused      the number of refused values since the start, by reason
    alarms       the logged refusals that go on, with the time of the last one
    remembered   the clocks of senders without a message since this controller took over
    """

    samples: Mapping[str, Received[SampleRecord]] = field(default_factory=dict)
    reports: Mapping[str, Received[TrafficReport]] = field(default_factory=dict)
    remembered: SenderClocks = field(default_factory=dict)
    refusals: Mapping[str, Refused] = field(default_factory=dict)
    alarms: Mapping[str, tuple[Refused, float]] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


def receive(inbox: Inbox, context: ReadContext, samples: Values, reports: Values) -> Inbox:
    """Return the inbox after the values of one tick, without the senders that are no longer declared.

    `samples` has one entry for each declared peer, `reports` one for each load balancer.
    """
    now_s = context.now_s
    of_samples, of_reports = (inbox.remembered.get(kind, {}) for kind in ("samples", "reports"))
    context = context._replace(remembered=of_samples)
    new_samples, sample_refusals = _received(SAMPLES, inbox.samples, samples, context)
    context = context._replace(remembered=of_reports)
    new_reports, report_refusals = _received(REPORTS, inbox.reports, reports, context)
    refusals = sample_refusals | report_refusals
    return Inbox(
        samples=new_samples,
        reports=new_reports,
        remembered={
            "samples": _unheard(of_samples, samples, inbox.samples, new_samples),
            "reports": _unheard(of_reports, reports, inbox.reports, new_reports),
        },
        refusals=refusals,
        alarms=_lasting(inbox.alarms, now_s) | {source: (each, now_s) for source, each in refusals.items()},
        refused=_counted(inbox.refused, [refusal.reason for refusal in refusals.values()]),
    )


def sender_clocks(inbox: Inbox) -> SenderClocks:
    """Return the latest time of each sender's clock, for the next leader."""
    clocks = {"samples": _clocks(inbox.samples), "reports": _clocks(inbox.reports)}
    known = {kind: {**each, **inbox.remembered.get(kind, {})} for kind, each in clocks.items()}
    return {kind: each for kind, each in known.items() if each}


def count_refused(inbox: Inbox, refused: Refused) -> Inbox:
    """Return the inbox with one more refused value in the counts, from outside of `receive`."""
    return replace(inbox, refused=_counted(inbox.refused, [refused.reason]))


@dataclass(frozen=True, slots=True)
class RefusalChange:
    """A source whose refusal began or changed its reason, or ended (None)."""

    source: str
    refused: Refused | None

    @property
    def alike(self) -> str:
        """Return the words that are the same for all sources of this kind with this cause."""
        kind = self.source.partition(" of ")[0]
        return f"{kind}s no longer refused" if self.refused is None else f"{kind}s {self.refused.reason}"

    def __str__(self) -> str:
        """Return the change in one line."""
        if self.refused is None:
            return f"{self.source} is no longer refused"
        return f"{self.source} {self.refused}; the last good one is kept"


def refusal_changes(before: Inbox, after: Inbox) -> list[RefusalChange]:
    """Return each source whose refusal began, changed its reason, or ended."""
    changes = []
    for source, (refusal, _) in after.alarms.items():
        earlier = before.alarms.get(source)
        if earlier is None or earlier[0].reason != refusal.reason:
            changes.append(RefusalChange(source, refusal))
    changes.extend(RefusalChange(source, None) for source in before.alarms if source not in after.alarms)
    return changes


def _lasting(alarms: Mapping[str, tuple[Refused, float]], now_s: float) -> dict[str, tuple[Refused, float]]:
    """Return the alarms that outlast a good value, so that two senders in turn make one alarm, not many."""
    return {
        source: (refusal, met_s)
        for source, (refusal, met_s) in alarms.items()
        if refusal.reason == "replayed" and now_s - met_s <= replay_guard.SILENT_S
    }


def _received(
    kind: MessageKind[Message],
    before: Mapping[str, Received[Message]],
    values: Values,
    context: ReadContext,
) -> tuple[dict[str, Received[Message]], dict[str, Refused]]:
    newest: dict[str, Received[Message]] = {}
    refusals: dict[str, Refused] = {}
    for name, value in values.items():
        last = before.get(name)
        received = last if value is None else _read(kind, name, value, last, context)
        if isinstance(received, Refused):
            refusals[f"{kind.name} of {name}"] = received
            received = last
        if received is not None:
            newest[name] = received
    return newest, refusals


def _clocks(newest: Mapping[str, Received[Message]]) -> dict[str, int]:
    return {name: each.clock_ms for name, each in newest.items() if each.clock_ms is not None}


def _unheard(
    remembered: Mapping[str, int],
    values: Values,
    before: Mapping[str, Received[Message]],
    after: Mapping[str, Received[Message]],
) -> Mapping[str, int]:
    """Return the remembered clocks of senders without a new message."""
    return {
        name: ms for name, ms in remembered.items() if name in values and after.get(name) is before.get(name)
    }


def _counted(counts: Mapping[str, int], reasons: Sequence[Reason]) -> Mapping[str, int]:
    return dict(Counter(counts) + Counter(reasons)) if reasons else counts


def _read(
    kind: MessageKind[Message], name: str, value: bytes, last: Received[Message] | None, context: ReadContext
) -> Received[Message] | Refused:
    """Return the sender's newest message after its `value` was read, or why the value is refused."""
    text = context.keys.open_value(value, kind.key_name(context.upstream, name))
    message = text if isinstance(text, Refused) else kind.decode(text)
    if isinstance(message, Refused):
        return message
    if (message.upstream, kind.sender(message)) != (context.upstream, name):
        whose = f"{message.upstream}/{kind.sender(message)}"
        return Refused("name", f"the key holds the message of {whose}: two programs may share a name")
    at_ms = kind.at_ms(message)
    clock_ms = None if last is None else last.clock_ms
    if last is not None and last.message.boot == message.boot:
        if replay_guard.is_known(last.message, message):
            return last
        refused = replay_guard.within_run(last.message, message)
        ended = last.ended
    else:
        clock_ms = max(
            (ms for ms in (clock_ms, context.remembered.get(name)) if ms is not None), default=None
        )
        refused = _refused_run(message, at_ms, clock_ms, last, context)
        ended = () if last is None else replay_guard.replaced(last.ended, last.message, message)
    if refused is not None:
        return refused
    known = last.offset if last is not None and last.message.boot == message.boot else None
    estimated_end_s, offset = _estimate_end(at_ms, known, context)
    return Received(message, context.now_s, at_ms, ended, estimated_end_s, offset)


def _estimate_end(
    at_ms: int, known: SenderOffset | None, context: ReadContext
) -> tuple[float | None, SenderOffset | None]:
    """Return the end of a new message's window, and the new bounds of its sender's clock."""
    if not isfinite(context.last_read_s):
        return None, None  # The message may have been there for long.
    sent_s = at_ms / 1000
    offset = SenderOffset.of(sent_s, last_read_s=context.last_read_s, seen_s=context.now_s, before=known)
    return offset.received_s(sent_s, context.synchronized_s), offset


def _refused_run(
    message: Message,
    at_ms: int,
    clock_ms: int | None,
    last: Received[Message] | None,
    context: ReadContext,
) -> Refused | None:
    refused = None
    if last is not None:
        silent = replay_guard.gives_way(
            last.message, context.now_s - last.arrived_s, at_ms=at_ms, heard_ms=clock_ms
        )
        refused = replay_guard.of_an_ended_run(
            message, ended=last.ended, believed=last.message, silent=silent
        )
    if refused is None and context.unix_ms is not None:
        refused = replay_guard.of_long_ago(at_ms, heard_ms=clock_ms, now_ms=context.unix_ms)
    return refused
