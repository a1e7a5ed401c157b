"""What is held of one sender, a peer's agent or a load balancer: its newest message.

Pure. Whether a message is newer than the one that is held, or somebody put it
back, is decided here by the rules of `runs`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from steelyard_agent import signature
from steelyard_agent.record import SampleRecord
from steelyard_agent.wire import Refused

from steelyard_controller.pipeline import runs
from steelyard_controller.pipeline.traffic import TrafficReport

Message = TypeVar("Message", SampleRecord, TrafficReport)


@dataclass(frozen=True, slots=True)
class Held(Generic[Message]):
    """A sender's newest message and when it was first seen here, in seconds of the receiver's clock.

    `told_ms` is the last time that the sender's own clock told, `ended` its runs that others replaced.
    """

    message: Message
    arrived_s: float
    told_ms: int | None = None
    ended: tuple[runs.Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind(Generic[Message]):
    """One of the two kinds of messages: how to read it, and what it says of its sender and of the time."""

    name: str
    decode: Callable[[bytes], Message | Refused]
    sender: Callable[[Message], str]
    at_ms: Callable[[Message], int | None]


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the network has in common; `unix_ms` None: the senders' clocks are not looked at.

    `remembered` is what senders' clocks told another controller.
    """

    upstream: str
    key: bytes | None
    now_s: float
    unix_ms: int | None
    remembered: Mapping[str, int]


def read(
    kind: Kind[Message], name: str, value: bytes, last: Held[Message] | None, look: Look
) -> Held[Message] | Refused:
    """Return what is held of the sender `name` after its `value` was found, or why that is refused."""
    message = signature.read(look.key, value, kind.decode)
    if isinstance(message, Refused):
        return message
    if (message.upstream, kind.sender(message)) != (look.upstream, name):
        return _misplaced(f"{message.upstream}/{kind.sender(message)}")
    at_ms = kind.at_ms(message)
    told_ms = None if last is None else last.told_ms
    if last is not None and last.message.boot == message.boot:
        if runs.is_known(last.message, message):
            return last
        refused = runs.within_run(last.message, message)
        ended = last.ended
    else:
        told_ms = max((ms for ms in (told_ms, look.remembered.get(name)) if ms is not None), default=None)
        refused = _refused_run(message, at_ms, told_ms, last, look)
        ended = () if last is None else runs.replaced(last.ended, last.message, message)
    return refused or Held(message, look.now_s, told_ms if at_ms is None else at_ms, ended)


def _refused_run(
    message: Message, at_ms: int | None, told_ms: int | None, last: Held[Message] | None, look: Look
) -> Refused | None:
    silent = last is None or runs.is_silent(last.message, look.now_s - last.arrived_s)
    refused = None
    if last is not None:
        refused = runs.of_an_ended_run(message, ended=last.ended, believed=last.message, silent=silent)
    if refused is None and look.unix_ms is not None:
        refused = runs.of_long_ago(at_ms, heard_ms=told_ms, now_ms=look.unix_ms, silent=silent)
    return refused


def _misplaced(whose: str) -> Refused:
    return Refused("name", f"the key holds the message of {whose}: two programs may share a name")
