"""What has arrived: the newest sample of each peer and the newest report of each load balancer.

Pure: the time comes in as an argument. Freshness is judged here, by the
receiver's own clock, from the moment that (boot, seq) changed; the sender's
clock only helps to tell a replay (`runs`). A value that is refused changes
nothing but its count.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from steelyard_agent import record
from steelyard_agent.record import SampleRecord
from steelyard_agent.wire import Reason, Refused

from steelyard_controller.pipeline import held as senders
from steelyard_controller.pipeline import runs, traffic
from steelyard_controller.pipeline.held import Held, Kind, Look, Message
from steelyard_controller.pipeline.traffic import TrafficReport


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is wrong with the value that a key holds now."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What each sender's own clock told last, in milliseconds since 1970, by its name."""

    samples: Mapping[str, int] = field(default_factory=dict)
    reports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """All that the receiver knows; `refusals` is by source, now; `refused` counts since the start.

    `alarms` are the refusals that the log was told of and that last, with the time when each was last met.
    `remembered` is what another controller was told, of senders that were not heard here since.
    """

    samples: Mapping[str, Held[SampleRecord]] = field(default_factory=dict)
    reports: Mapping[str, Held[TrafficReport]] = field(default_factory=dict)
    remembered: Told = field(default_factory=Told)
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    alarms: Mapping[str, tuple[Refusal, float]] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


def take(
    intake: Intake,
    now_s: float,
    *,
    upstream: str,
    samples: Mapping[str, bytes | None],
    reports: Mapping[str, bytes | None],
    key: bytes | None = None,
    unix_ms: int | None = None,
) -> Intake:
    """Return the intake after one look at the network; with a `key`, only signed values are believed.

    `samples` has one entry per configured peer and `reports` one per load
    balancer: the raw value, or None where the key was absent. What is not
    configured any more is forgotten. `unix_ms` is the receiver's clock since
    1970; without it the senders' clocks are not looked at.
    """
    held_samples, sample_refusals = _received(
        Kind("sample", record.decode, lambda sample: sample.peer, lambda sample: sample.taken_at_ms),
        intake.samples,
        samples,
        Look(upstream, key, now_s, unix_ms, intake.remembered.samples),
    )
    held_reports, report_refusals = _received(
        Kind("traffic report", traffic.decode, lambda report: report.lb, lambda report: report.sent_at_ms),
        intake.reports,
        reports,
        Look(upstream, key, now_s, unix_ms, intake.remembered.reports),
    )
    refusals = sample_refusals | report_refusals
    return replace(
        intake,
        samples=held_samples,
        reports=held_reports,
        remembered=Told(
            samples=_still(intake.remembered.samples, samples, intake.samples, held_samples),
            reports=_still(intake.remembered.reports, reports, intake.reports, held_reports),
        ),
        refusals=refusals,
        alarms=_lasting(intake.alarms, now_s) | {source: (each, now_s) for source, each in refusals.items()},
        refused=_counted(intake.refused, [refusal.reason for refusal in refusals.values()]),
    )


def told(intake: Intake) -> Told:
    """Return what each sender's clock told last, for whoever takes over."""
    return Told(
        samples=_told(intake.samples) | dict(intake.remembered.samples),
        reports=_told(intake.reports) | dict(intake.remembered.reports),
    )


def count(intake: Intake, refused: Refused) -> Intake:
    """Return the intake with a value counted that was refused elsewhere."""
    return replace(intake, refused=_counted(intake.refused, [refused.reason]))


def changes(before: Intake, after: Intake) -> list[str]:
    """Return a line for each source whose refusal began, changed its reason, or ended."""
    lines = []
    for source, (refusal, _) in after.alarms.items():
        earlier = before.alarms.get(source)
        if earlier is None or earlier[0].reason != refusal.reason:
            lines.append(f"{source} refused ({refusal.reason}): {refusal.detail}; the last good one is kept")
    lines.extend(f"{source} is no longer refused" for source in before.alarms if source not in after.alarms)
    return lines


def _lasting(alarms: Mapping[str, tuple[Refusal, float]], now_s: float) -> dict[str, tuple[Refusal, float]]:
    """Return the alarms that last though a good value was met: two who write in turn are one alarm."""
    return {
        source: (refusal, met_s)
        for source, (refusal, met_s) in alarms.items()
        if refusal.reason == "replayed" and now_s - met_s <= runs.SILENT_S
    }


def _received(
    kind: Kind[Message],
    before: Mapping[str, Held[Message]],
    values: Mapping[str, bytes | None],
    look: Look,
) -> tuple[dict[str, Held[Message]], dict[str, Refusal]]:
    held: dict[str, Held[Message]] = {}
    refusals: dict[str, Refusal] = {}
    for name, value in values.items():
        last = before.get(name)
        found = last if value is None else senders.read(kind, name, value, last, look)
        if isinstance(found, Refused):
            refusals[f"{kind.name} of {name}"] = Refusal(found.reason, found.detail)
            found = last
        if found is not None:
            held[name] = found
    return held, refusals


def _told(held: Mapping[str, Held[Message]]) -> dict[str, int]:
    return {name: each.told_ms for name, each in held.items() if each.told_ms is not None}


def _still(
    remembered: Mapping[str, int],
    values: Mapping[str, bytes | None],
    before: Mapping[str, Held[Message]],
    after: Mapping[str, Held[Message]],
) -> Mapping[str, int]:
    """Return what is remembered of the senders of which nothing new has come."""
    if not remembered:
        return remembered
    return {
        name: ms for name, ms in remembered.items() if name in values and after.get(name) is before.get(name)
    }


def _counted(counts: Mapping[str, int], reasons: Iterable[Reason]) -> Mapping[str, int]:
    counter = Counter(counts)
    counter.update(reasons)
    return dict(counter)
