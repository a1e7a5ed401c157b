"""What a phase of the demo measured: requests and observations of the servers. Pure.

Times are seconds since the phase began, a request's is when it was sent: its
server was chosen then, and what it waited is the fate of a request of that
moment.
"""

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request: when, how long, the status (0: no answer) and who served it ("": nobody said)."""

    t_s: float
    latency_ms: float
    status: int
    server: str

    @property
    def failed(self) -> bool:
        """Say whether there was no answer, or one that is no success."""
        return not 200 <= self.status < 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One server at one moment: its weight as a part of all weights, its CPU utilization (None: unknown)."""

    t_s: float
    server: str
    weight_share: float | None
    cpu_utilization: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Everything measured under one way of spreading the load. burn: from, to; None if it did not burn."""

    name: str
    title: str
    planned_s: float
    measured_s: float
    burn: tuple[float, float] | None
    sent: tuple[Sent, ...]
    observed: tuple[Observed, ...]


def parse_sent(lines: Iterable[str], began_s: float) -> tuple[Sent, ...]:
    """Read the locustfile's CSV (started_s, latency_ms, status, server), in order of sending.

    began_s is the phase's beginning on the same clock; what was sent before it is
    warm-up and left out, and so is a last line that was cut off.
    """
    sent = []
    for row in csv.reader(lines):
        try:
            started_s, latency_ms, status, server = row
            entry = Sent(
                t_s=float(started_s) - began_s,
                latency_ms=float(latency_ms),
                status=int(status),
                server=server,
            )
        except ValueError:
            continue
        if entry.t_s >= 0:
            sent.append(entry)
    return tuple(sorted(sent, key=lambda entry: entry.t_s))


def parse_weights(document: object, t_s: float) -> tuple[Observed, ...]:
    """Read the controller's weights; what it does not tell, or tells wrongly, is None."""
    peers = document.get("peers") if isinstance(document, dict) else None
    known = [peer for peer in peers if isinstance(peer, dict)] if isinstance(peers, list) else []
    weights = {id(peer): _number(peer.get("weight")) for peer in known}
    total = sum(weight or 0.0 for weight in weights.values())
    observed = []
    for peer in known:
        name, weight, utilization = peer.get("id"), weights[id(peer)], peer.get("utilization")
        if isinstance(name, str):
            observed.append(
                Observed(
                    t_s=t_s,
                    server=name,
                    weight_share=weight / total if weight is not None and total > 0 else None,
                    cpu_utilization=_number(utilization.get("cpu"))
                    if isinstance(utilization, dict)
                    else None,
                )
            )
    return tuple(observed)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
