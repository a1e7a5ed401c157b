"""The traffic report: what a load balancer saw of each peer in one interval, told to the controller.

Pure. The producers are nginx (openresty/steelyard/lib/steelyard/core) and the reporter beside HAProxy, with
`encode`; all are tested on docs/contract/traffic.json. Two versions are read and written:

    1   an object for each peer, by its name
    2   a list for each figure, in the order of the list of names: a third of the size, read at once

A weight table tells which its controller reads (`VERSION`); one that tells none reads version 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from steelyard_protocol import typed_json
from steelyard_protocol.typed_json import Boot, Count, Interval, Name, TypedReader, check_names
from steelyard_protocol.wire import InvalidMessage, Refused

VERSION = 2
"""The latest version that is read here."""

# What a load balancer's weights rest on, from the best to the worst (openresty/…/core/ladder.lua).
Rung = Literal["fresh", "hold", "drift", "saved", "bootstrap", "none"]
RUNGS: tuple[str, ...] = get_args(Rung)

# No longer than nginx waits for anything (11 days).
_Latency = Annotated[float, Meta(ge=0.0, le=1e9)]

# Of all requests of a second, in whatever unit.
_Cost = Annotated[float, Meta(ge=0.0, le=1e15)]

# CPU may exceed its limit, but 64 times is a broken server (the bound of a sample).
_Utilization = Annotated[float, Meta(ge=0.0, le=64.0)]

_Metric = Annotated[float, Meta(ge=-1e15, le=1e15)]

# nginx keeps as many of the 14 that an agent can send (core/orca.lua): earlier controllers refuse more.
MAX_NAMED = 8


class PeerLoad(Struct, frozen=True, kw_only=True):
    """What a server said of itself in its responses (ORCA, `endpoint-load-metrics`); UNSET is "not said".

    `utilization` is the application's, or else its CPU's. `named_metrics` are in units of the server's own.
    """

    utilization: _Utilization | UnsetType = UNSET
    mem_utilization: _Utilization | UnsetType = UNSET
    named_metrics: Annotated[dict[Name, _Metric], Meta(max_length=MAX_NAMED)] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficReport:
    """One load balancer's report on one upstream; its columns have an entry for each of `ids`.

    completed, failed   requests in the interval
    in_flight           requests at its end
    latency_ms          time to the response's header, of the completed ones without upgrades (101): the mean;
                        None where none was completed
    latency_p50_ms      their median; None where the load balancer does not know it
    cost                what the completed ones cost, in the operator's unit; None: not told
    loads               what servers said of themselves, by id, with the requests that they completed

    `zone` is the load balancer's own; None: it has none. `rung` is one of RUNGS and `order` the (term,
    generation) of the table that it serves; None where it tells none: it serves no table, or is of an earlier
    version. `sent_at_ms` is its own clock since 1970; None: of an earlier version.
    """

    upstream: str
    lb: str
    boot: str
    seq: int
    interval_s: float
    ids: Sequence[str] = ()
    completed: Sequence[int] = ()
    failed: Sequence[int] = ()
    in_flight: Sequence[int] = ()
    latency_ms: Sequence[float | None] = ()
    latency_p50_ms: Sequence[float | None] = ()
    cost: Sequence[float] | None = None
    loads: dict[str, tuple[int, PeerLoad]] = field(default_factory=dict)
    zone: str | None = None
    rung: str | None = None
    order: tuple[int, int] | None = None
    sent_at_ms: int | None = None


class _Report(Struct, kw_only=True):
    upstream: Name
    lb: Name
    boot: Boot
    seq: Count
    interval_s: Interval
    zone: Name | UnsetType = UNSET
    rung: Rung | UnsetType = UNSET
    order: tuple[Count, Count] | UnsetType = UNSET
    sent_at_ms: Count | UnsetType = UNSET


class _Figures(Struct):
    completed: Count
    failed: Count
    in_flight: Count
    latency_ms: _Latency | None
    latency_p50_ms: _Latency | UnsetType = UNSET
    cost: _Cost | UnsetType = UNSET
    load: PeerLoad | UnsetType = UNSET


class _Rows(_Report, tag_field="v", tag=1, kw_only=True):
    peers: dict[str, _Figures]


class _Columns(_Report, tag_field="v", tag=VERSION, kw_only=True):
    ids: list[str]
    completed: list[Count]
    failed: list[Count]
    in_flight: list[Count]
    latency_ms: list[_Latency | None]
    latency_p50_ms: list[_Latency | None] | UnsetType = UNSET
    cost: list[_Cost] | UnsetType = UNSET
    loads: dict[Name, PeerLoad] = {}


# In the order in which they are written.
_MEMBERS = ("upstream", "lb", "boot", "seq", "interval_s", "sent_at_ms", "zone", "rung", "order")

_REQUIRED = ("completed", "failed", "in_flight", "latency_ms")
_FIGURES = (*_REQUIRED, "latency_p50_ms")

_READER: TypedReader[_Rows | _Columns] = TypedReader(_Rows | _Columns)  # type: ignore[arg-type]


def decode(value: bytes) -> TrafficReport | Refused:
    """Read a traffic report from the network; total, never raises."""
    try:
        message = _READER.read(value)
        columns = _columns_of(message) if isinstance(message, _Columns) else _columns_of_rows(message.peers)
        check_names(columns["ids"])
    except InvalidMessage as bad:
        return bad.refused
    return TrafficReport(**typed_json.members(message, _MEMBERS), **columns)


def encode(report: TrafficReport, read_version: int | None) -> bytes:
    """Return the text of the Memcached value, in the latest version that the controller reads (None: 1).

    `loads` and `cost` are not written: only nginx sees what servers say, and is told costs.
    """
    version = min(read_version or 1, VERSION)
    members = {name: getattr(report, name) for name in _MEMBERS}
    document = {"v": version, **{name: value for name, value in members.items() if value is not None}}
    columns = {name: getattr(report, name) for name in _FIGURES}
    if all(each is None for each in report.latency_p50_ms):
        del columns["latency_p50_ms"]
    if version == 1:
        rows = zip(*columns.values(), strict=True)
        peers = (
            {
                name: value
                for name, value in zip(columns, row, strict=True)
                if value is not None or name in _REQUIRED
            }
            for row in rows
        )
        return msgspec.json.encode({**document, "peers": dict(zip(report.ids, peers, strict=True))})
    return msgspec.json.encode({**document, "ids": report.ids, **columns})


def _columns_of(message: _Columns) -> dict[str, Any]:
    count = len(message.ids)
    columns: dict[str, Sequence[Any]] = typed_json.members(message, (*_FIGURES, "cost"))
    columns.setdefault("latency_p50_ms", [None] * count)
    for name, column in columns.items():
        if len(column) != count:
            raise InvalidMessage("range", f'"{name}" has {len(column)} figures, and there are {count} ids')
    if len(set(message.ids)) != count:
        raise InvalidMessage("range", '"ids" has a name twice')
    rows = zip(message.ids, message.completed, strict=True) if message.loads else ()
    loads = {peer: (completed, message.loads[peer]) for peer, completed in rows if peer in message.loads}
    return {"ids": message.ids, "loads": loads, **columns}


def _columns_of_rows(peers: dict[str, _Figures]) -> dict[str, Any]:
    rows = peers.values()
    return {
        "ids": list(peers),
        **{name: [getattr(row, name) for row in rows] for name in _REQUIRED},
        "latency_p50_ms": [None if row.latency_p50_ms is UNSET else row.latency_p50_ms for row in rows],
        "cost": None if not peers or any(row.cost is UNSET for row in rows) else [row.cost for row in rows],
        "loads": {peer: (row.completed, row.load) for peer, row in peers.items() if row.load is not UNSET},
    }
