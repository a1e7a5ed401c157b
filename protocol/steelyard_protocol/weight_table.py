"""The weight table: the message of the controller to nginx.

Pure. The producer is here, the consumer is openresty/steelyard/lib/steelyard/core; both
ends are tested on docs/contract/weights.json and head.json.

A table's head has the members that change at each tick: the order, the time and the weights. `digest` covers
the rest, except baselines that the controller computes: a reader with a table of the same digest needs only
the head. `table_chunks` is the form in Memcached of a table larger than an item.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field, to_builtins
from msgspec.structs import replace

from steelyard_protocol import check_schema, peer_address, typed_json, wire
from steelyard_protocol.check_schema import CheckField
from steelyard_protocol.typed_json import Count, Name, TypedReader
from steelyard_protocol.wire import InvalidMessage, Refused

State = Literal["up", "drain", "down", "backup"]

# Published weights are integers that sum to S, 20 a peer; no law raises S above this.
MAX_WEIGHT = 1_000_000

# Inputs of a hash picker; nginx has a variable for each.
HASH_KEY = re.compile(r"address|uri|(header|cookie|argument):[A-Za-z0-9_-]{1,64}")

Weight = Annotated[int, Meta(ge=1, le=MAX_WEIGHT)]
MaxConns = Annotated[int, Meta(ge=1, le=1_000_000)]

# The factors are as many as zones by zones.
MOST_ZONES = 32
LARGEST_FACTOR = 1000


class TablePeer(Struct, frozen=True, kw_only=True, gc=False):
    """One row: the effective and the baseline weight of a peer, both of the same total.

    `pinned` is True if a person has set its share: pickers that look at requests in flight keep to it.
    `max_conns` is its own limit, in place of the table's and of nginx.conf's.

    A `Struct`, because a tick makes and encodes ten thousand. The garbage collector need not inspect them:
    text and numbers are no cycle.
    """

    id: Name
    address: str
    weight: Weight
    baseline: Weight
    state: State
    zone: Name | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    max_conns: MaxConns | UnsetType = UNSET


class WeightTable(
    Struct, frozen=True, kw_only=True, gc=False, tag_field="v", tag=wire.VERSION, omit_defaults=True
):
    """A published table; (`term`, `generation`) orders tables, clocks never do.

    `check` (the members of the controller's `Check`) and `hash_key` override nginx.conf's;
    None leaves nginx.conf's in force. `max_conns` is a peer's limit over all load balancers. `reporters` are
    the load balancers whose reports the controller gets. `digest` comes from `with_digest`; None: no head.
    `zones` are the servers' zones that a load balancer is in, too. `zone_factors` has a row for the load
    balancers of each zone, and a last row for those without a zone. A row has a factor for the weights of the
    servers of each zone, and a last one for servers without. A head has the factors, too.

    Its members are those of the message, in their order. An optional one that is None is not in the message.
    nginx reads the long list of peers in slices only if nothing follows it.
    """

    upstream: str
    term: int
    generation: int
    issued_at_ms: int
    law: str
    picker: str
    check: dict[str, Any] | None = None
    hash_key: str | None = None
    max_conns: int | None = None
    # Only a factory of no known type has its value in every message.
    reporters: tuple[str, ...] = field(default_factory=lambda: ())
    zones: tuple[str, ...] | None = None
    zone_factors: tuple[tuple[int, ...], ...] | None = None
    digest: str | None = None
    peers: tuple[TablePeer, ...]

    @property
    def order(self) -> tuple[int, int]:
        """Return the pair that orders tables: a later table has the larger one."""
        return self.term, self.generation


_MEMBERS = WeightTable.__struct_fields__[:-1]
_OF_A_HEAD = ("upstream", "term", "generation", "issued_at_ms", "digest")

# All that a head can have beside the weights.
_NOT_IN_DIGEST = {"v", *_OF_A_HEAD, "zone_factors"}


class _Head(Struct, kw_only=True, gc=False, tag_field="v", tag=wire.VERSION, omit_defaults=True):
    upstream: str
    term: int
    generation: int
    issued_at_ms: int
    digest: str | None
    zone_factors: tuple[tuple[int, ...], ...] | None = None
    weights: list[int]


_ENCODER = msgspec.json.Encoder()


class TableTooLarge(Exception):
    """The table has more bytes than nginx reads."""


def to_document(table: WeightTable) -> dict[str, Any]:
    """Return the table as the JSON object of wire version 1."""
    return {**members(table), "peers": to_builtins(table.peers)}


def members(table: WeightTable) -> dict[str, Any]:
    """Return the members before the last one, "peers", in the order of the message."""
    values = {name: getattr(table, name) for name in _MEMBERS}
    return {"v": wire.VERSION, **{name: value for name, value in values.items() if value is not None}}


def to_json(table: WeightTable) -> bytes:
    """Return the table as JSON: the same bytes each time, so that a signature holds."""
    return _ENCODER.encode(table)


def encode(table: WeightTable) -> bytes:
    """Return the text of the table; raise `TableTooLarge` if nginx would not read it."""
    value = to_json(table)
    if len(value) > wire.MAX_TABLE_BYTES:
        raise TableTooLarge(
            f"the weight table of {table.upstream} has {len(table.peers)} peers and {len(value)} bytes; "
            f"nginx reads {wire.MAX_TABLE_BYTES}: split the upstream"
        )
    return value


def with_digest(table: WeightTable, declared: Sequence[float | None] | None = None) -> WeightTable:
    """Return the table with the digest of all that its head does not have.

    Members are hashed with their names. So two of the same type, such as `reporters` and `zones`, cannot be
    taken for each other. A new member is in the digest as soon as the table has it.

    `declared` has the declared baseline of each row, None for a computed one. A computed baseline may change
    without making every load balancer read every row again; nginx reads them all now and then. Without
    `declared`, the table's baselines count.
    """
    baselines = [peer.baseline for peer in table.peers] if declared is None else declared
    rows = [
        (peer.id, peer.address, baseline, peer.state)
        if peer.zone is UNSET and peer.pinned is UNSET and peer.max_conns is UNSET
        else (peer.id, peer.address, baseline, peer.state, peer.zone or None, peer.pinned is True)
        + (() if peer.max_conns is UNSET else (peer.max_conns,))
        for peer, baseline in zip(table.peers, baselines, strict=True)
    ]
    fixed = {name: value for name, value in members(table).items() if name not in _NOT_IN_DIGEST}
    text = msgspec.json.encode({**fixed, "peers": rows})
    return replace(table, digest=hashlib.blake2b(text, digest_size=16).hexdigest())


def encode_head(table: WeightTable) -> bytes:
    """Return the head of a table with a digest: its weights, in the order of its rows."""
    return _ENCODER.encode(
        _Head(
            upstream=table.upstream,
            term=table.term,
            generation=table.generation,
            issued_at_ms=table.issued_at_ms,
            digest=table.digest,
            zone_factors=table.zone_factors,
            weights=[peer.weight for peer in table.peers],
        )
    )


def _check_member(field: CheckField) -> tuple[str, Any] | tuple[str, Any, Any]:
    """Return the name, the type and, if a table may lack it, the default of a setting of a check."""
    bounds = Meta(ge=field.lowest, le=field.highest)
    match field.kind:
        case "text":
            text = Meta(pattern=rf"^(?:{field.pattern})\Z", max_length=field.longest)
            kind: Any = Annotated[str, text] | None
        case "statuses":
            kind = Annotated[list[Annotated[int, bounds]], Meta(min_length=1)] | None
        case "number":
            kind = Annotated[float, bounds]
        case "whole number":
            kind = Annotated[int, bounds]
        case "flag":
            kind = bool
    return (field.name, kind) if field.always_sent else (field.name, kind, field.default)


if TYPE_CHECKING:
    _Check = Struct
else:
    _Check = msgspec.defstruct("_Check", map(_check_member, check_schema.FIELDS), kw_only=True)

_Factor = Annotated[int, Meta(ge=1, le=LARGEST_FACTOR)]


class Members(Struct, kw_only=True):
    """The members of a table in Memcached, without its rows."""

    v: Literal[1]
    upstream: Name
    term: Count
    generation: Count
    issued_at_ms: Count
    law: Name
    picker: Name
    check: _Check | UnsetType = UNSET
    hash_key: Annotated[str, Meta(pattern=rf"^(?:{HASH_KEY.pattern})\Z")] | UnsetType = UNSET
    max_conns: MaxConns | UnsetType = UNSET
    reporters: tuple[Name, ...]
    zones: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MOST_ZONES)] | UnsetType = UNSET
    zone_factors: tuple[tuple[_Factor, ...], ...] | UnsetType = UNSET
    digest: Name | UnsetType = UNSET


class _Table(Members, kw_only=True):
    peers: tuple[TablePeer, ...]


_READER = TypedReader(_Table, max_bytes=wire.MAX_TABLE_BYTES)


def decode(value: bytes) -> WeightTable | Refused:
    """Read a weight table from the network; total, never raises."""
    try:
        message = _READER.read(value)
        return of_message(message, message.peers)
    except InvalidMessage as bad:
        return bad.refused


def of_message(message: Members, peers: tuple[TablePeer, ...]) -> WeightTable:
    """Return the table of a message; raise `InvalidMessage` if its members contradict each other."""
    check_rows(peers)
    given = typed_json.members(message, _MEMBERS)
    if "check" in given:
        given["check"] = _whole(to_builtins(given["check"]))
    _check_factors(given.get("zones"), given.get("zone_factors"))
    return WeightTable(**given, peers=peers)


def check_rows(peers: Sequence[TablePeer]) -> None:
    """Raise `InvalidMessage` unless each has its own id, and an address that a picker takes."""
    if len({peer.id for peer in peers}) != len(peers):
        raise InvalidMessage("range", "two peers have the same id")
    for peer in peers:
        try:
            peer_address.split(peer.address)
        except ValueError as error:
            raise InvalidMessage("range", str(error)) from None


def _check_factors(zones: tuple[str, ...] | None, factors: tuple[tuple[int, ...], ...] | None) -> None:
    if zones is None and factors is None:
        return
    if zones is None or factors is None:
        raise InvalidMessage("missing", '"zones" and "zone_factors" go together')
    if any(len(row) != len(zones) + 1 for row in (factors, *factors)):
        raise InvalidMessage("range", f'"zone_factors" has not {len(zones) + 1} rows of as many figures')


def _whole(check: dict[str, Any]) -> dict[str, Any]:
    if check["path"] is None and check["grpc_service"] is None:
        raise InvalidMessage("missing", 'the check has neither "path" nor "grpc_service"')
    if conflict := check_schema.conflict(check):
        raise InvalidMessage("range", f"check: {conflict}")
    return check
