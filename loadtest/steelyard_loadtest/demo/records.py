"""What a phase of the demo is to do, the load that fits a cluster, and what was measured. Pure.

Times are seconds since the phase began, a request's is when it was sent: its server was chosen then, and
what it waited is the fate of a request of that moment.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from steelyard_loadtest.generators.tally import Request

T = TypeVar("T")

# Busy enough that a wrong weight hurts, and the others can still carry a burnt server's part.
TARGET_UTILIZATION = 0.6
LOWEST_RATE = 10
USERS_PER_REQUEST_PER_S = 0.5  # each user then has 0.5 s for a request before the rate suffers


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One phase to be run: where the load goes, how much, for how long, and whom to burn in the middle."""

    name: str
    title: str
    path: str
    static: bool
    seconds: int
    rate: float
    users: int
    burn_url: str
    servers: tuple[str, ...]

    @property
    def burn(self) -> tuple[float, float]:
        """When the burn begins and ends: the middle third."""
        return self.seconds / 3, self.seconds * 2 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one server's request costs in CPU seconds, and how many cores it has."""

    cpu_s_per_request: float
    limit_cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One server at one moment: its weight as a part of all weights, its CPU utilization (None: unknown)."""

    t_s: float
    server: str
    weight_share: float | None
    cpu_utilization: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Everything measured under one way of spreading the load.

    burn: from, to; None if it did not burn. sent: ascending; due_s is in seconds since the phase began.
    """

    name: str
    title: str
    planned_s: float
    measured_s: float
    burn: tuple[float, float] | None
    sent: tuple[Request, ...]
    observed: tuple[Observed, ...]


def capacity(costs: Iterable[Cost]) -> float:
    """Return the requests per second that the servers can do together."""
    return sum(cost.limit_cores / cost.cpu_s_per_request for cost in costs)


def target_rate(costs: Sequence[Cost]) -> int:
    """Return the rate that loads the servers to TARGET_UTILIZATION, rounded to tens."""
    return max(round(capacity(costs) * TARGET_UTILIZATION / 10) * 10, LOWEST_RATE)


def users_for(rate: float) -> int:
    """Return enough users that none is late while requests take up to half a second."""
    return max(round(rate * USERS_PER_REQUEST_PER_S), 10)


def sent_within(requests: Iterable[Request], began_s: float, measured_s: float) -> tuple[Request, ...]:
    """Return what was sent in so many seconds from the beginning, in that order, with times since then."""
    since = (replace(one, due_s=one.due_s - began_s) for one in requests)
    return tuple(sorted((one for one in since if 0 <= one.due_s < measured_s), key=lambda one: one.due_s))


def parse_weights(document: object, t_s: float) -> tuple[Observed, ...]:
    """Read the controller's weights; what it does not tell, or tells wrongly, is None."""
    known = [peer for peer in _part(document, "peers", list) or () if _part(peer, "id", str) is not None]
    weights = [_number(peer.get("weight")) for peer in known]
    total = sum(weight or 0.0 for weight in weights)
    return tuple(
        Observed(
            t_s=t_s,
            server=peer["id"],
            weight_share=weight / total if weight is not None and total > 0 else None,
            cpu_utilization=_number((_part(peer, "utilization", dict) or {}).get("cpu")),
        )
        for peer, weight in zip(known, weights, strict=True)
    )


def parse_servers(document: object) -> dict[str, str]:
    """Read the servers from the controller's weights: name -> base URL."""
    return {
        peer["id"]: f"http://{peer['address']}"
        for peer in _part(document, "peers", list) or ()
        if _part(peer, "id", str) and _part(peer, "address", str)
    }


def _part(document: object, name: str, kind: type[T]) -> T | None:
    part = document.get(name) if isinstance(document, dict) else None
    return part if isinstance(part, kind) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
