"""Load balancers whose reports are read without a declaration, because they announced themselves.

Pure; these are the ones of one upstream. With a shared key, their reports have to be signed with the key of
their name, as those of declared ones are. In addition, the first report must be recent by this clock: the
controller remembers nothing about a load balancer that left, so an attacker could replay its old reports.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec
from steelyard_protocol import replay_guard
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.wire import Refused

from steelyard_controller.messages.inbox import Inbox
from steelyard_controller.messages.received import Received

# A recorded report could be replayed for this long. A load balancer that restarts is back earlier.
FORGOTTEN_AFTER_S = replay_guard.LENIENCE_MS / 1000

# The undeclared load balancers of one upstream. Their names make a table 3 kB longer, or 17 kB at their
# maximum length.
MOST_READ = 256

# One log line for all of them: a client that can write to Memcached could fill the log with names.
REFUSAL_SOURCE = "traffic report of an undeclared load balancer"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeclaredBalancers:
    """The undeclared load balancers with read reports.

    heard_s     the time of the last report of each; None: before the takeover
    announced   those whose first report is judged at this tick
    beyond      the number without a place
    """

    heard_s: Mapping[str, float | None] = field(default_factory=dict)
    announced: tuple[str, ...] = ()
    beyond: int = 0

    @property
    def fault(self) -> str | None:
        """Return the fault that some load balancers are not read, and its remedy; None: all are."""
        if not self.beyond:
            return None
        return (
            f"{self.beyond} undeclared load balancers report beyond the {MOST_READ} that are read: "
            "declare the ones that count in load_balancers"
        )

    def changes(self, after: "UndeclaredBalancers") -> list[str]:
        """Return a log line for each load balancer that is read from now on, and each that no longer is."""
        added, removed = after.heard_s.keys() - self.heard_s, self.heard_s.keys() - after.heard_s
        return [
            *(f"undeclared load balancer {lb} reports and is read" for lb in sorted(added)),
            *(f"undeclared load balancer {lb} is no longer read" for lb in sorted(removed)),
        ]

    def announce(self, names: Iterable[str], declared: Container[str]) -> "UndeclaredBalancers":
        """Judge these at the next tick, unless they are declared or already read."""
        new = sorted(each for each in names if each not in declared and each not in self.heard_s)
        places = MOST_READ - len(self.heard_s)
        return replace(self, announced=tuple(new[:places]), beyond=max(0, len(new) - places))

    def resume(self, names: Iterable[str], declared: Container[str]) -> "UndeclaredBalancers":
        """Go on with the load balancers that the previous leader read."""
        known = [each for each in names if each not in declared][:MOST_READ]
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
        """Return the load balancers that are read after a tick, and the inbox with the new ones' reports.

        tried     the reports of the `announced` ones
        unix_ms   the receiver's clock since 1970; None: senders' clocks are not checked
        """
        details = {
            source.removeprefix("traffic report of "): each.detail for source, each in tried.refusals.items()
        }
        refusals = [f"{lb}: {detail}" for lb, detail in details.items()]
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
            refused = {REFUSAL_SOURCE: Refused(reason, refusals[0] + more)}
        whole = msgspec.structs.replace(
            received,
            reports=reports,
            refusals={**received.refusals, **refused},
            alarms={**received.alarms, **{source: (each, now_s) for source, each in refused.items()}},
        )
        return replace(self, heard_s=heard_s, announced=()), whole


def _late(report: Received[TrafficReport], unix_ms: int | None) -> str | None:
    """Return why a first report is too old; None: it is recent."""
    at_ms = report.message.sent_at_ms
    if unix_ms is None or at_ms >= unix_ms - replay_guard.LENIENCE_MS:
        return None
    return (
        f"its report is {(unix_ms - at_ms) / 1000:.0f} s old by its clock: set that clock, or declare it in "
        "the upstream's load_balancers"
    )
