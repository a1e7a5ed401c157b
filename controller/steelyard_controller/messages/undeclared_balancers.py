"""The load balancers whose reports are read although nobody declared them: they announced themselves.

Pure; those of one upstream. A report is believed as a declared one's is: where there is a shared key, it has
to be signed with the key of its name. Beside that its first one must not be long past by this clock: nothing
is kept of a load balancer that left, and what it had sent before could be put back.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from steelyard_protocol import replay_guard
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.wire import Refused

from steelyard_controller.messages.inbox import Inbox, Received

# As long as a report that was recorded could be put back. One that restarts is back before.
FORGOTTEN_AFTER_S = replay_guard.LENIENCE_MS / 1000

# Of one upstream. Their names make a table 3 kB longer, or 17 kB if each is as long as it may be.
MOST = 256

# One line for all: whoever can write to Memcached could fill the log with names.
STRANGER = "traffic report of a load balancer that nobody declared"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeclaredBalancers:
    """Those that are read, with the time of their last report; None: of before the takeover.

    `announced` are tried at this tick; `beyond` is how many have no place.
    """

    heard_s: Mapping[str, float | None] = field(default_factory=dict)
    announced: tuple[str, ...] = ()
    beyond: int = 0

    @property
    def fault(self) -> str | None:
        """Return how many are not read, and the remedy."""
        if not self.beyond:
            return None
        return (
            f"{self.beyond} load balancers report that nobody declared, beyond the {MOST} that are read: "
            "declare those that count in load_balancers"
        )

    def changes(self, after: "UndeclaredBalancers") -> list[str]:
        """Return a line for the log for each that is read from now on, and each that is not any more."""
        came, left = after.heard_s.keys() - self.heard_s, self.heard_s.keys() - after.heard_s
        return [
            *(f"load balancer {lb}, which nobody declared, reports and is read" for lb in sorted(came)),
            *(f"load balancer {lb}, which nobody declared, is not read any more" for lb in sorted(left)),
        ]

    def announce(self, names: Iterable[str], declared: Container[str]) -> "UndeclaredBalancers":
        """Have those tried at the next tick that are neither declared nor read."""
        new = sorted(each for each in names if each not in declared and each not in self.heard_s)
        places = MOST - len(self.heard_s)
        return replace(self, announced=tuple(new[:places]), beyond=max(0, len(new) - places))

    def resume(self, names: Iterable[str], declared: Container[str]) -> "UndeclaredBalancers":
        """Go on with those that the controller before has read."""
        known = [each for each in names if each not in declared][:MOST]
        return replace(self, heard_s={**dict.fromkeys(known), **self.heard_s})

    def after(
        self,
        received: Inbox,
        tried: Inbox,
        declared: Container[str],
        *,
        now_s: float,
        unix_ms: int | None,
    ) -> "tuple[UndeclaredBalancers, Inbox]":
        """Return who is read after a tick's reports, and the inbox with what those that are new have sent.

        `tried` has the reports of those `announced`. `unix_ms` is the receiver's clock since 1970; without it
        nobody's clock is looked at.
        """
        whose = {source.removeprefix("traffic report of "): each for source, each in tried.refusals.items()}
        refusals = [f"{lb}: {each.detail}" for lb, each in whose.items()]
        reason = next((each.reason for each in tried.refusals.values()), None)
        reports, heard_s = dict(received.reports), dict[str, float | None]()
        for lb, report in tried.reports.items():
            if late := _late(report, unix_ms):
                reason = reason or "replayed"
                refusals.append(f"{lb}: {late}")
            else:
                reports[lb], heard_s[lb] = report, report.arrived_s
        for lb, before_s in self.heard_s.items():
            if lb in declared:
                continue
            last_s = reports[lb].arrived_s if lb in reports else before_s or now_s
            if now_s - last_s <= FORGOTTEN_AFTER_S:
                heard_s[lb] = last_s
            else:
                reports.pop(lb, None)
        refused = {}
        if reason is not None:
            more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
            refused = {STRANGER: Refused(reason, refusals[0] + more)}
        whole = replace(
            received,
            reports=reports,
            refusals={**received.refusals, **refused},
            alarms={**received.alarms, **{source: (each, now_s) for source, each in refused.items()}},
        )
        return replace(self, heard_s=heard_s, announced=()), whole


def _late(report: Received[TrafficReport], unix_ms: int | None) -> str | None:
    """Return why a first report is not believed."""
    at_ms = report.message.sent_at_ms
    if unix_ms is None or at_ms >= unix_ms - replay_guard.LENIENCE_MS:
        return None
    return (
        f"its report is {(unix_ms - at_ms) / 1000:.0f} s old by its clock: set that clock, or declare it in "
        "the upstream's load_balancers"
    )
