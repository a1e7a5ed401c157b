"""The inbox: the newest sample of each peer and the newest report of each load balancer.

Pure: the time is an argument. A refused value changes only the counts and the list of refusals. The end of a
message's window is estimated from both clocks (`sender_offset`), to pair samples with reports. The values of
many upstreams are taken up at once (`receive_all`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from steelyard_protocol import derived_keys, replay_guard, traffic_report
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.wire import Reason, Refused

from steelyard_controller.messages import received_samples
from steelyard_controller.messages.newest_samples import NewestSamples
from steelyard_controller.messages.received import ReadContext, Received, judged, wrong_sender
from steelyard_controller.messages.received_samples import SampleValues
from steelyard_controller.messages.sender_offset import SenderOffset

_NO_OFFSET = SenderOffset(nan, nan, nan)

Values = Mapping[str, bytes | None]
"""The raw value by sender; None: the key is absent."""

SenderClocks = Mapping[str, Mapping[str, int]]
"""The latest time of each sender's own clock, ms since 1970: by kind (samples, reports), then by name."""


class Inbox(Struct, frozen=True, kw_only=True):
    """All received messages of one upstream, and the refused ones. A tick makes thousands.

    refusals     by source, in the last tick
    refused      the number of refused values since the start, by reason
    alarms       the logged refusals that go on, with the time of the last one
    remembered   the clocks of senders without a message since this controller took over
    """

    samples: NewestSamples = field(default_factory=lambda: NewestSamples.none({}))
    reports: Mapping[str, Received[TrafficReport]] = field(default_factory=dict)
    remembered: SenderClocks = field(default_factory=dict)
    refusals: Mapping[str, Refused] = field(default_factory=dict)
    alarms: Mapping[str, tuple[Refused, float]] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


class Receipt(Struct, frozen=True):
    """The values that one tick has read for an upstream.

    places    the place of each declared peer
    samples   the value at each place; None: the key is absent
    reports   the value of each load balancer
    """

    inbox: Inbox
    context: ReadContext
    places: Mapping[str, int]
    samples: Sequence[bytes | None]
    reports: Values


def receive(inbox: Inbox, context: ReadContext, samples: Values, reports: Values) -> Inbox:
    """Return one upstream's inbox after the values of one tick.

    `samples` has one entry for each declared peer, `reports` one for each load balancer.
    """
    places = {peer: place for place, peer in enumerate(samples)}
    return receive_all([Receipt(inbox, context, places, [*samples.values()], reports)])[0]


def receive_all(receipts: Sequence[Receipt]) -> list[Inbox]:
    """Return the inboxes of several upstreams after the values of one tick.

    They are without the senders that are no longer declared.
    """
    samples = received_samples.receive(
        [
            SampleValues(
                each.inbox.samples.aligned(each.places),
                each.samples,
                each.context,
                each.inbox.remembered.get("samples", {}),
            )
            for each in receipts
        ]
    )
    reports = _receive_reports(receipts)
    return [_inbox(*each) for each in zip(receipts, samples, reports, strict=True)]


def _inbox(
    receipt: Receipt,
    samples: tuple[NewestSamples, Mapping[str, Refused]],
    reports: tuple[Mapping[str, Received[TrafficReport]], Mapping[str, Refused]],
) -> Inbox:
    before, now_s = receipt.inbox, receipt.context.now_s
    (new_samples, refused_samples), (new_reports, refused_reports) = samples, reports
    if not (refused_samples or refused_reports or before.alarms or before.remembered):
        return Inbox(samples=new_samples, reports=new_reports, refused=before.refused)
    refusals = {
        **{f"sample of {peer}": each for peer, each in refused_samples.items()},
        **{f"traffic report of {lb}": each for lb, each in refused_reports.items()},
    }
    return Inbox(
        samples=new_samples,
        reports=new_reports,
        remembered=_still_remembered(receipt, new_samples, new_reports) if before.remembered else {},
        refusals=refusals,
        alarms={
            **_lasting(before.alarms, now_s),
            **{source: (each, now_s) for source, each in refusals.items()},
        },
        refused=_counted(before.refused, [refusal.reason for refusal in refusals.values()]),
    )


def sender_clocks(inbox: Inbox) -> SenderClocks:
    """Return the latest time of each sender's clock, for the next leader."""
    reports = {lb: each.clock_ms for lb, each in inbox.reports.items() if each.clock_ms is not None}
    clocks = {"samples": inbox.samples.clocks_ms(), "reports": reports}
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


def _still_remembered(
    receipt: Receipt, samples: NewestSamples, reports: Mapping[str, Received[TrafficReport]]
) -> SenderClocks:
    """Return the remembered clocks of senders without a new message."""
    before = receipt.inbox
    of_samples, of_reports = (before.remembered.get(kind, {}) for kind in ("samples", "reports"))
    return {
        "samples": {
            peer: ms
            for peer, ms in of_samples.items()
            if peer in receipt.places and samples.raw_of(peer) is before.samples.raw_of(peer)
        },
        "reports": {
            lb: ms
            for lb, ms in of_reports.items()
            if lb in receipt.reports and reports.get(lb) is before.reports.get(lb)
        },
    }


def _counted(counts: Mapping[str, int], reasons: Sequence[Reason]) -> Mapping[str, int]:
    return dict(Counter(counts) + Counter(reasons)) if reasons else counts


class _NewReport(Struct, frozen=True):
    """A report that is its load balancer's newest one, and the earlier runs of that load balancer."""

    receipt: int
    lb: str
    value: bytes
    report: TrafficReport
    ended: tuple[replay_guard.Run, ...]


def _receive_reports(
    receipts: Sequence[Receipt],
) -> list[tuple[dict[str, Received[TrafficReport]], dict[str, Refused]]]:
    """Return the newest report of each load balancer, by upstream, and the refusals."""
    received: list[tuple[dict[str, Received[TrafficReport]], dict[str, Refused]]] = []
    new: list[_NewReport] = []
    for number, receipt in enumerate(receipts):
        newest: dict[str, Received[TrafficReport]] = {}
        refusals: dict[str, Refused] = {}
        for lb, value in receipt.reports.items():
            last = receipt.inbox.reports.get(lb)
            if last is not None:
                newest[lb] = last
            if value is None or (last is not None and value == last.value):
                continue
            read = _read_report(receipt, lb, value, last)
            if isinstance(read, Refused):
                refusals[lb] = read
            elif read is not None:
                report, ended = read
                new.append(_NewReport(number, lb, value, report, ended))
        received.append((newest, refusals))
    for each, arrived in zip(new, _arrivals(receipts, new), strict=True):
        received[each.receipt][0][each.lb] = arrived
    for number in {each.receipt for each in new if each.lb not in receipts[each.receipt].inbox.reports}:
        # The order of the load balancers is the order in which their figures are summed.
        newest, refusals = received[number]
        received[number] = {lb: newest[lb] for lb in receipts[number].reports if lb in newest}, refusals
    return received


def _read_report(
    receipt: Receipt, lb: str, value: bytes, last: Received[TrafficReport] | None
) -> tuple[TrafficReport, tuple[replay_guard.Run, ...]] | Refused | None:
    """Return a load balancer's newest report and its earlier runs; why it is refused; None: it is known."""
    context = receipt.context
    text = context.keys.open_value(value, derived_keys.lb(lb))
    known_ids = () if last is None else last.message.ids
    report = text if isinstance(text, Refused) else traffic_report.decode(text, known_ids)
    if isinstance(report, Refused):
        return report
    if (report.upstream, report.lb) != (context.upstream, lb):
        return wrong_sender(report, report.lb)
    if last is not None and last.message.boot == report.boot and last.message.seq < report.seq:
        return report, last.ended  # The usual case; `judged` finds the same.
    remembered_ms = receipt.inbox.remembered.get("reports", {}).get(lb)
    ended = judged(report, report.sent_at_ms, last, context, remembered_ms)
    return ended if ended is None or isinstance(ended, Refused) else (report, ended)


def _arrivals(receipts: Sequence[Receipt], new: Sequence[_NewReport]) -> list[Received[TrafficReport]]:
    """Return the new reports with the estimated ends of their windows."""
    if not new:
        return []
    contexts = [receipts[each.receipt].context for each in new]
    offsets = [_offset_of_run(receipts[each.receipt].inbox.reports.get(each.lb), each.report) for each in new]
    sent_s = np.array([each.report.sent_at_ms for each in new], dtype=float) / 1000
    offset = SenderOffset.of(
        sent_s,
        last_read_s=np.array([each.last_read_s for each in contexts]),
        seen_s=np.array([each.now_s for each in contexts]),
        before=SenderOffset(*np.array(offsets, dtype=float).reshape(-1, 3).T),
    )
    ends_s = offset.received_s(sent_s, np.array([each.synchronized_s for each in contexts], dtype=float))
    arrivals = []
    bounds = np.array(offset).T.tolist()
    for each, context, end_s, its in zip(new, contexts, ends_s.tolist(), bounds, strict=True):
        # Without an earlier read, the report may have been there for long.
        known = isfinite(context.last_read_s)
        arrivals.append(
            Received(
                each.report,
                context.now_s,
                each.report.sent_at_ms,
                each.ended,
                end_s if known else None,
                SenderOffset(*its) if known else None,
                each.value,
            )
        )
    return arrivals


def _offset_of_run(last: Received[TrafficReport] | None, report: TrafficReport) -> SenderOffset:
    """Return the known bounds of the clock of a report's run."""
    if last is None or last.offset is None or last.message.boot != report.boot:
        return _NO_OFFSET
    return last.offset
