"""What has arrived: the newest sample of each peer and the newest report of each load balancer.

Pure: the time comes in as an argument. Freshness is judged here, by the
receiver's own clock, from the moment that (boot, seq) changed; `taken_at_ms`
is never looked at. A value that is refused changes nothing but its count.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from steelyard_agent import record, signature
from steelyard_agent.record import SampleRecord
from steelyard_agent.wire import Reason, Refused

from steelyard_controller.pipeline import traffic
from steelyard_controller.pipeline.traffic import TrafficReport

Message = TypeVar("Message", SampleRecord, TrafficReport)


@dataclass(frozen=True, slots=True)
class Held(Generic[Message]):
    """A message and when it was first seen here, in seconds of the receiver's clock."""

    message: Message
    arrived_s: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is wrong with the value that a key holds now."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """All that the receiver knows; `refusals` is by source, now; `refused` counts since the start."""

    samples: Mapping[str, Held[SampleRecord]] = field(default_factory=dict)
    reports: Mapping[str, Held[TrafficReport]] = field(default_factory=dict)
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


def take(
    intake: Intake,
    now_s: float,
    *,
    upstream: str,
    samples: Mapping[str, bytes | None],
    reports: Mapping[str, bytes | None],
    key: bytes | None = None,
) -> Intake:
    """Return the intake after one look at the network; with a `key`, only signed values are believed.

    `samples` has one entry per configured peer and `reports` one per load
    balancer: the raw value, or None where the key was absent. What is not
    configured any more is forgotten.
    """
    held_samples, sample_refusals = _received(
        "sample",
        intake.samples,
        samples,
        lambda value: signature.read(key, value, record.decode),
        lambda sample: sample.peer,
        upstream,
        now_s,
    )
    held_reports, report_refusals = _received(
        "traffic report",
        intake.reports,
        reports,
        lambda value: signature.read(key, value, traffic.decode),
        lambda report: report.lb,
        upstream,
        now_s,
    )
    refusals = sample_refusals | report_refusals
    return replace(
        intake,
        samples=held_samples,
        reports=held_reports,
        refusals=refusals,
        refused=_counted(intake.refused, [refusal.reason for refusal in refusals.values()]),
    )


def count(intake: Intake, refused: Refused) -> Intake:
    """Return the intake with a value counted that was refused elsewhere."""
    return replace(intake, refused=_counted(intake.refused, [refused.reason]))


def changes(before: Intake, after: Intake) -> list[str]:
    """Return a line for each source whose refusal began, changed its reason, or ended."""
    lines = []
    for source, refusal in after.refusals.items():
        earlier = before.refusals.get(source)
        if earlier is None or earlier.reason != refusal.reason:
            lines.append(f"{source} refused ({refusal.reason}): {refusal.detail}; the last good one is kept")
    lines.extend(
        f"{source} is no longer refused" for source in before.refusals if source not in after.refusals
    )
    return lines


def _received(
    kind: str,
    before: Mapping[str, Held[Message]],
    values: Mapping[str, bytes | None],
    decode: Callable[[bytes], Message | Refused],
    sender: Callable[[Message], str],
    upstream: str,
    now_s: float,
) -> tuple[dict[str, Held[Message]], dict[str, Refusal]]:
    held: dict[str, Held[Message]] = {}
    refusals: dict[str, Refusal] = {}
    for name, value in values.items():
        message = None if value is None else decode(value)
        if message is not None and not isinstance(message, Refused):
            whose = (message.upstream, sender(message))
            message = message if whose == (upstream, name) else _misplaced("/".join(whose))
        if isinstance(message, Refused):
            refusals[f"{kind} of {name}"] = Refusal(message.reason, message.detail)
            message = None
        kept = _newer(before.get(name), message, now_s)
        if kept is not None:
            held[name] = kept
    return held, refusals


def _counted(counts: Mapping[str, int], reasons: Iterable[Reason]) -> Mapping[str, int]:
    counter = Counter(counts)
    counter.update(reasons)
    return dict(counter)


def _newer(held: Held[Message] | None, message: Message | None, now_s: float) -> Held[Message] | None:
    if message is None:
        return held
    if held is not None and held.message.boot == message.boot and held.message.seq >= message.seq:
        return held
    return Held(message, now_s)


def _misplaced(whose: str) -> Refused:
    return Refused("name", f"the key holds the message of {whose}: two programs may share a name")
