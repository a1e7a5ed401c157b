"""The traffic report: what a load balancer saw of each peer in one interval.

Pure. The producer is nginx (openresty/lua/steelyard/core); both ends are
tested on docs/contract/traffic.json.
"""

from dataclasses import dataclass
from typing import Any

from steelyard_agent import wire
from steelyard_agent.wire import Bad, Refused

# What a load balancer's weights rest on, from the best to the worst (openresty/…/core/ladder.lua).
RUNGS = ("fresh", "hold", "drift", "saved", "bootstrap", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTraffic:
    """Requests completed and failed in the interval, in flight at its end, and their mean latency."""

    completed: int
    failed: int
    in_flight: int
    latency_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficReport:
    """One load balancer's report on one upstream.

    `rung` is one of RUNGS and `order` the (term, generation) of the table that it serves; None where it tells
    none: it serves no table, or is of an earlier version. `sent_at_ms` is its own clock since 1970; None: of
    an earlier version.
    """

    upstream: str
    lb: str
    boot: str
    seq: int
    interval_s: float
    peers: dict[str, PeerTraffic]
    rung: str | None = None
    order: tuple[int, int] | None = None
    sent_at_ms: int | None = None


def decode(value: bytes) -> TrafficReport | Refused:
    """Read a traffic report from the network; total, never raises."""
    try:
        document = wire.load_object(value)
        peers: dict[str, PeerTraffic] = {}
        for peer, row in wire.mapping(document, "peers").items():
            if not wire.is_name(peer):
                raise Bad("name", f'"peers" has {peer[:64]!r}, which is no name')
            if not isinstance(row, dict):
                raise Bad("type", f"the figures of {peer} are not an object")
            peers[peer] = PeerTraffic(
                completed=wire.integer(row, "completed"),
                failed=wire.integer(row, "failed"),
                in_flight=wire.integer(row, "in_flight"),
                latency_ms=wire.optional_number(row, "latency_ms", high=1e9),
            )
        return TrafficReport(
            upstream=wire.name(document, "upstream"),
            lb=wire.name(document, "lb"),
            boot=wire.text(document, "boot", longest=64),
            seq=wire.integer(document, "seq"),
            interval_s=wire.number(document, "interval_s", low=0.001, high=3600.0),
            peers=peers,
            rung=_rung(document),
            order=_order(document),
            sent_at_ms=wire.integer(document, "sent_at_ms") if "sent_at_ms" in document else None,
        )
    except Bad as bad:
        return bad.refused


def _rung(document: dict[str, Any]) -> str | None:
    if "rung" not in document:
        return None
    rung = wire.text(document, "rung")
    if rung not in RUNGS:
        raise Bad("range", f'"rung" is none of {", ".join(RUNGS)}')
    return rung


def _order(document: dict[str, Any]) -> tuple[int, int] | None:
    if "order" not in document:
        return None
    pair = document["order"]
    if not isinstance(pair, list) or len(pair) != 2:
        raise Bad("type", '"order" is not [term, generation]')
    named = {"term": pair[0], "generation": pair[1]}
    return wire.integer(named, "term"), wire.integer(named, "generation")
