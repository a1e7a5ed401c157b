"""The traffic report: a load balancer's counts for each peer in one interval.

Pure. Three parts write reports: nginx (openresty/steelyard/lib/steelyard/core/traffic_report.lua), the
reporter beside HAProxy, and a controller on behalf of an Envoy, both with `encode`. Only the controller reads
them. All are tested on docs/contract/traffic.json.

A report has one list for each figure, in the order of `ids`. That takes a third of the bytes of an object for
each peer, and numpy adds the lists as they are. A reader refuses a report of another version, and counts it.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from steelyard_protocol import wire
from steelyard_protocol.typed_json import Boot, Count, Interval, Name, TypedReader, check_names
from steelyard_protocol.wire import InvalidMessage, Refused

# The sources of a load balancer's weights, from the best to the worst (openresty/…/core/ladder.lua).
Rung = Literal["fresh", "hold", "drift", "saved", "bootstrap", "none"]
RUNGS: tuple[str, ...] = get_args(Rung)

# No longer than nginx waits for anything (11 days).
_Latency = Annotated[float, Meta(ge=0.0, le=1e9)]

# Among all requests of a second, in any unit.
_Cost = Annotated[float, Meta(ge=0.0, le=1e15)]

# CPU may exceed its limit, but 64 times is a broken server (the bound of a sample).
_Utilization = Annotated[float, Meta(ge=0.0, le=64.0)]

_Metric = Annotated[float, Meta(ge=-1e15, le=1e15)]

# nginx keeps this many of an agent's 14 at most (core/orca.lua).
MAX_NAMED = 8


class PeerLoad(Struct, frozen=True, kw_only=True):
    """A server's own load report in its responses (ORCA, `endpoint-load-metrics`); UNSET: not reported.

    `utilization` is the application's, or else its CPU's. `named_metrics` are in units of the server's own.
    """

    utilization: _Utilization | UnsetType = UNSET
    mem_utilization: _Utilization | UnsetType = UNSET
    named_metrics: Annotated[dict[Name, _Metric], Meta(max_length=MAX_NAMED)] = {}


class TrafficReport(Struct, frozen=True, kw_only=True):
    """One load balancer's report on one upstream; its columns have an entry for each of `ids`.

        completed, failed   requests in the interval
        in_flight           requests at its end
        latency_ms          mean time to the response's header of completed requests without upgrades (101);
                            None if none completed
        latency_p50_ms      their median; None if the load balancer does not measure it
        cost                total cost of completed requests, in the operator's unit; None: not measured
        loads               reports of servers on their own load, by id, with the requests that they completed

    `sent_at_ms` is the load balancer's own clock since 1970. `zone` is its own; None: it has none. `rung` is
    one of RUNGS and `order` the (term, generation) of the served table. Only nginx reports these two,
    and it reports no `order` before its first table.
    """

    upstream: str
    lb: str
    boot: str
    seq: int
    sent_at_ms: int
    interval_s: float
    ids: Sequence[str] = ()
    completed: Sequence[int] = ()
    failed: Sequence[int] = ()
    in_flight: Sequence[int] = ()
    latency_ms: Sequence[float | None] = ()
    latency_p50_ms: Sequence[float | None] = ()
    cost: Sequence[float] | None = None
    loads: dict[str, tuple[int, PeerLoad]] = {}
    zone: str | None = None
    rung: str | None = None
    order: tuple[int, int] | None = None


class _Report(Struct, kw_only=True):
    v: Literal[1]
    upstream: Name
    lb: Name
    boot: Boot
    seq: Count
    sent_at_ms: Count
    interval_s: Interval
    zone: Name | UnsetType = UNSET
    rung: Rung | UnsetType = UNSET
    order: tuple[Count, Count] | UnsetType = UNSET
    ids: list[str]
    completed: list[Count]
    failed: list[Count]
    in_flight: list[Count]
    latency_ms: list[_Latency | None]
    latency_p50_ms: list[_Latency | None] | UnsetType = UNSET
    cost: list[_Cost] | UnsetType = UNSET
    loads: dict[Name, PeerLoad] = {}


# In the order of the message.
_MEMBERS = ("upstream", "lb", "boot", "seq", "sent_at_ms", "interval_s", "zone", "rung", "order")
_FIGURES = ("completed", "failed", "in_flight", "latency_ms", "latency_p50_ms")

_READER = TypedReader(_Report)


def decode(value: bytes, known_ids: Sequence[str] = ()) -> TrafficReport | Refused:
    """Read a traffic report from the network; total, never raises.

    `known_ids` are those of an earlier report: they need not be checked again.
    """
    try:
        message = _READER.read(value)
        _check_lengths(message)
        if message.ids != known_ids:
            _check_ids(message.ids)
    except InvalidMessage as bad:
        return bad.refused
    count = len(message.ids)
    rows = zip(message.ids, message.completed, strict=True) if message.loads else ()
    return TrafficReport(
        upstream=message.upstream,
        lb=message.lb,
        boot=message.boot,
        seq=message.seq,
        sent_at_ms=message.sent_at_ms,
        interval_s=message.interval_s,
        ids=known_ids if message.ids == known_ids else message.ids,
        completed=message.completed,
        failed=message.failed,
        in_flight=message.in_flight,
        latency_ms=message.latency_ms,
        latency_p50_ms=[None] * count if message.latency_p50_ms is UNSET else message.latency_p50_ms,
        cost=None if message.cost is UNSET else message.cost,
        loads={peer: (completed, message.loads[peer]) for peer, completed in rows if peer in message.loads},
        zone=None if message.zone is UNSET else message.zone,
        rung=None if message.rung is UNSET else message.rung,
        order=None if message.order is UNSET else message.order,
    )


def encode(report: TrafficReport) -> bytes:
    """Return the text of the Memcached value.

    `loads` and `cost` are not written: only nginx sees servers' reports, and measures costs.
    """
    members = {name: getattr(report, name) for name in _MEMBERS}
    columns = {name: getattr(report, name) for name in _FIGURES}
    if all(median is None for median in report.latency_p50_ms):
        del columns["latency_p50_ms"]
    present = {name: value for name, value in members.items() if value is not None}
    return msgspec.json.encode({"v": wire.VERSION, **present, "ids": report.ids, **columns})


def _check_lengths(message: _Report) -> None:
    """Raise `InvalidMessage` unless every column has a figure for each id."""
    count = len(message.ids)
    columns = (message.completed, message.failed, message.in_flight, message.latency_ms)
    optional = (message.latency_p50_ms, message.cost)
    if {len(column) for column in (*columns, *optional) if column is not UNSET} <= {count}:
        return
    for name, column in zip((*_FIGURES, "cost"), (*columns, *optional), strict=True):
        if column is not UNSET and len(column) != count:
            raise InvalidMessage("range", f'"{name}" has {len(column)} figures, and there are {count} ids')


def _check_ids(ids: Sequence[str]) -> None:
    """Raise `InvalidMessage` for an id that occurs twice or is no name."""
    if len(set(ids)) != len(ids):
        raise InvalidMessage("range", '"ids" has a name twice')
    check_names(ids)
