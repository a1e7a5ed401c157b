"""A sender's newest message as it was received, and the decision whether a message is newer.

Pure: the time is an argument. Freshness is judged by the receiver's own clock, from the moment at which
(boot, seq) changed. The sender's clock only helps to recognize replays (`replay_guard`).
"""

from math import inf
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct
from steelyard_protocol import replay_guard
from steelyard_protocol.sample_reader import Sample
from steelyard_protocol.sample_record import SampleRecord
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.wire import Refused

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
    value             its bytes, as they were read; the same bytes need not be read again
    """

    message: Message
    arrived_s: float
    clock_ms: int | None = None
    ended: tuple[replay_guard.Run, ...] = ()
    estimated_end_s: float | None = None
    offset: SenderOffset | None = None
    value: bytes | None = None

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


class ReadContext(Struct, frozen=True):
    """The context of all messages of an upstream in one tick; with a shared key, they must be signed.

    unix_ms          the receiver's clock since 1970; None: senders' clocks are not checked
    last_read_s      the previous read: new messages came later
    synchronized_s   the receiver's monotonic clock less the time since 1970, for the ends of windows
    """

    upstream: str
    now_s: float
    keys: Keyring = NO_KEYS
    unix_ms: int | None = None
    last_read_s: float = -inf
    synchronized_s: float | None = None


def judged(
    message: Sample | TrafficReport,
    at_ms: int,
    last: Received[Message] | None,
    context: ReadContext,
    remembered_ms: int | None,
) -> tuple[replay_guard.Run, ...] | Refused | None:
    """Return a sender's ended runs if the message is its newest; why it is refused; None: it was read before.

    at_ms           the message's time by its sender's clock
    last            the sender's last accepted message
    remembered_ms   the sender's clock as the previous leader saw it
    """
    if last is not None and last.message.boot == message.boot:
        if replay_guard.is_known(last.message, message):
            return None
        return replay_guard.within_run(last.message, message) or last.ended
    known_ms = (None if last is None else last.clock_ms, remembered_ms)
    clock_ms = max((ms for ms in known_ms if ms is not None), default=None)
    refused = _refused_run(message, at_ms, clock_ms, last, context)
    if refused is not None:
        return refused
    return () if last is None else replay_guard.replaced(last.ended, last.message, message)


def wrong_sender(message: Sample | TrafficReport, sender: str) -> Refused:
    """Return the refusal of a message at another sender's key."""
    whose = f"{message.upstream}/{sender}"
    return Refused("name", f"the key holds the message of {whose}: two programs may share a name")


def _refused_run(
    message: Sample | TrafficReport,
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
