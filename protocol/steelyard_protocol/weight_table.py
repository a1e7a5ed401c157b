"""The weight table: the message of the controller to nginx.

Pure. The producer is here, the consumer is openresty/steelyard/lib/steelyard/core; both
ends are tested on docs/contract/weights.json and head.json.

A table's head has what changes at each tick: the order, the time and the weights. `digest` stands for the
rest, but for baselines that the controller computes, so whoever has a table of the same digest needs no more
than the head. `table_chunks` is how a table lies in Memcached that is larger than an item.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import msgspec
from msgspec import Struct, to_builtins

from steelyard_protocol import peer_address, wire
from steelyard_protocol.wire import InvalidMessage, Refused

State = Literal["up", "drain", "down", "backup"]
STATES: tuple[str, ...] = get_args(State)

# Published weights are integers that sum to S, 20 a peer; a law makes S no larger than this by itself.
MAX_WEIGHT = 1_000_000

# They go into a request of nginx as they are: nothing in them may end its line.
PATH = re.compile(r"/[!-~]{0,1000}")
HOST = re.compile(r"[A-Za-z0-9.:_\[\]-]{1,253}")
GRPC_SERVICE = re.compile(r"[A-Za-z0-9._/-]{0,127}")

# What a certificate can be for: no address, no port. Of at most MAX_SERVER_NAME characters.
SERVER_NAME = re.compile(r"([0-9_-][0-9._-]*)?[A-Za-z][A-Za-z0-9._-]*")
MAX_SERVER_NAME = 253

# What a hash picker hashes; nginx has a variable for each.
HASH_KEY = re.compile(r"address|uri|(header|cookie|argument):[A-Za-z0-9_-]{1,64}")


class TablePeer(Struct, frozen=True, kw_only=True):
    """One row: the effective and the baseline weight of a peer, both of the same total.

    A `Struct`, because ten thousand are made and encoded in a tick.
    """

    id: str
    address: str
    weight: int
    baseline: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightTable:
    """What is published; (`term`, `generation`) orders tables, clocks never do.

    `check` (the members of the controller's `Check`) and `hash_key` are stronger than nginx.conf's;
    None leaves those in force. `report_version` is the latest version of a traffic report that the
    controller reads; None: one of before it had versions. `reporters` are those whose reports it reads;
    None: one of before they announced themselves. `digest` is `with_digest`'s; None: the table has no head.
    """

    upstream: str
    term: int
    generation: int
    issued_at_ms: int
    law: str
    picker: str
    peers: tuple[TablePeer, ...]
    check: dict[str, Any] | None = None
    hash_key: str | None = None
    report_version: int | None = None
    reporters: tuple[str, ...] | None = None
    digest: str | None = None

    @property
    def order(self) -> tuple[int, int]:
        """Return what tables are compared by: a later table has the larger pair."""
        return self.term, self.generation


class TableTooLarge(Exception):
    """The table has more bytes than nginx reads."""


def to_document(table: WeightTable) -> dict[str, Any]:
    """Return the table as the JSON object of wire version 1."""
    return {**members(table), "peers": to_builtins(table.peers)}


def members(table: WeightTable) -> dict[str, Any]:
    """Return the members before the last one, "peers", in the order in which they are written.

    nginx reads a long list in slices only where nothing follows.
    """
    return {
        "v": wire.VERSION,
        "upstream": table.upstream,
        "term": table.term,
        "generation": table.generation,
        "issued_at_ms": table.issued_at_ms,
        "law": table.law,
        "picker": table.picker,
        **({} if table.check is None else {"check": table.check}),
        **({} if table.hash_key is None else {"hash_key": table.hash_key}),
        **({} if table.report_version is None else {"report_version": table.report_version}),
        **({} if table.reporters is None else {"reporters": table.reporters}),
        **({} if table.digest is None else {"digest": table.digest}),
    }


def to_json(table: WeightTable) -> bytes:
    """Return the table as JSON: the same bytes each time, so that a signature holds."""
    return msgspec.json.encode({**members(table), "peers": table.peers})


def encode(table: WeightTable) -> bytes:
    """Return the text of the table; raise `TableTooLarge` for one that nginx would not read."""
    value = to_json(table)
    if len(value) > wire.MAX_TABLE_BYTES:
        raise TableTooLarge(
            f"the weight table of {table.upstream} has {len(table.peers)} peers and {len(value)} bytes; "
            f"nginx reads {wire.MAX_TABLE_BYTES}: split the upstream"
        )
    return value


def with_digest(table: WeightTable, declared: Sequence[float | None] | None = None) -> WeightTable:
    """Return the table with the digest of all that its head has not.

    `declared` has the baseline of each row as it was declared, None for one that is computed and may change
    without every load balancer reading every row again: nginx does so now and then. Without it those of the
    table count.
    """
    baselines = [peer.baseline for peer in table.peers] if declared is None else declared
    rows = [
        (peer.id, peer.address, baseline, peer.state)
        for peer, baseline in zip(table.peers, baselines, strict=True)
    ]
    balancers = [] if table.reporters is None else [table.reporters]
    fixed = [table.law, table.picker, table.check, table.hash_key, table.report_version, *balancers, rows]
    return replace(table, digest=hashlib.blake2b(msgspec.json.encode(fixed), digest_size=16).hexdigest())


def encode_head(table: WeightTable) -> bytes:
    """Return the head of a table that has a digest: its weights, in the order of its rows."""
    return msgspec.json.encode(
        {
            "v": wire.VERSION,
            "upstream": table.upstream,
            "term": table.term,
            "generation": table.generation,
            "issued_at_ms": table.issued_at_ms,
            "digest": table.digest,
            "weights": [peer.weight for peer in table.peers],
        }
    )


def decode(value: bytes) -> WeightTable | Refused:
    """Read a weight table from the network; total, never raises."""
    try:
        return of_document(wire.load_object(value, most=wire.MAX_TABLE_BYTES))
    except InvalidMessage as bad:
        return bad.refused


def of_document(document: dict[str, Any]) -> WeightTable:
    """Return the table of a JSON object; raise `InvalidMessage` where it is none."""
    rows = wire.field(document, "peers")
    if not isinstance(rows, list):
        raise InvalidMessage("type", '"peers" is not an array')
    peers = tuple(_peer(row) for row in rows)
    if len({peer.id for peer in peers}) != len(peers):
        raise InvalidMessage("range", "two peers have the same id")
    return WeightTable(
        upstream=wire.name(document, "upstream"),
        term=wire.integer(document, "term"),
        generation=wire.integer(document, "generation"),
        issued_at_ms=wire.integer(document, "issued_at_ms"),
        law=wire.name(document, "law"),
        picker=wire.name(document, "picker"),
        peers=peers,
        check=_check(document),
        hash_key=_hash_key(document),
        report_version=(
            wire.integer(document, "report_version", low=1) if "report_version" in document else None
        ),
        reporters=_reporters(document),
        digest=wire.name(document, "digest") if "digest" in document else None,
    )


def _check(document: dict[str, Any]) -> dict[str, Any] | None:
    if "check" not in document:
        return None
    row = wire.mapping(document, "check")
    check = {
        "path": _optional(row, "path", PATH),
        "statuses": _statuses(row),
        "interval_s": wire.number(row, "interval_s", low=0.1, high=3600.0),
        "timeout_s": wire.number(row, "timeout_s", low=0.05, high=60.0),
        "rise": wire.integer(row, "rise", low=1, high=100),
        "fall": wire.integer(row, "fall", low=1, high=100),
        "host": _optional(row, "host", HOST),
        "tls": _flag(row, "tls", default=False),
        "tls_server_name": _optional(row, "tls_server_name", SERVER_NAME, longest=MAX_SERVER_NAME),
        "tls_verify": _flag(row, "tls_verify", default=True),
        "grpc_service": _optional(row, "grpc_service", GRPC_SERVICE),
    }
    if check["path"] is None and check["grpc_service"] is None:
        raise InvalidMessage("missing", 'the check has neither "path" nor "grpc_service"')
    if conflict := check_conflict(check):
        raise InvalidMessage("range", f"check: {conflict}")
    return check


def check_conflict(check: Mapping[str, Any]) -> str | None:
    """Return what does not go together in a check whose members are right one by one, and the remedy."""
    path, service, tls = check["path"], check["grpc_service"], check["tls"]
    name = check["tls_server_name"] or re.sub(r":\d*$", "", check["host"] or "")
    if path is None and service is None:
        return 'path is missing: give it, or grpc_service ("" for the server as a whole)'
    if service is not None and (path is not None or check["statuses"] is not None):
        return "path and statuses do not go with grpc_service: leave one of them out"
    if service is not None and tls:
        return "tls does not go with grpc_service: nginx cannot do it; check a port without TLS, or a path"
    if not tls and (check["tls_server_name"] is not None or not check["tls_verify"]):
        return "tls_server_name and tls_verify have no effect without tls: true"
    if tls and check["tls_verify"] and not SERVER_NAME.fullmatch(name):
        return (
            "tls_server_name is missing: the certificate has to be for a name, and host is none; "
            "give it, or tls_verify: false to trust any certificate"
        )
    return None


def _statuses(row: dict[str, Any]) -> list[int] | None:
    given = row.get("statuses")
    if given is None:
        return None
    if not isinstance(given, list):
        raise InvalidMessage("type", '"statuses" of the check is not an array')
    if not given:
        raise InvalidMessage("range", '"statuses" of the check is empty')
    return [wire.integer({"statuses": status}, "statuses", low=100, high=599) for status in given]


def _reporters(document: dict[str, Any]) -> tuple[str, ...] | None:
    if "reporters" not in document:
        return None
    given = document["reporters"]
    if not isinstance(given, list):
        raise InvalidMessage("type", '"reporters" is not an array')
    return tuple(wire.name({"reporters": each}, "reporters") for each in given)


def _hash_key(document: dict[str, Any]) -> str | None:
    return _matching(document, "hash_key", HASH_KEY, longest=73) if "hash_key" in document else None


def _optional(row: dict[str, Any], key: str, pattern: re.Pattern[str], *, longest: int = 2000) -> str | None:
    value = row.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidMessage("type", f'"{key}" of the check is not a string')
    if len(value) > longest or not pattern.fullmatch(value):
        raise InvalidMessage("range", f'"{key}" of the check does not match {pattern.pattern}')
    return value


def _flag(row: dict[str, Any], key: str, *, default: bool) -> bool:
    value = row.get(key, default)
    if not isinstance(value, bool):
        raise InvalidMessage("type", f'"{key}" of the check is neither true nor false')
    return value


def _matching(document: dict[str, Any], key: str, pattern: re.Pattern[str], *, longest: int) -> str:
    value = wire.text(document, key, longest=longest)
    if not pattern.fullmatch(value):
        raise InvalidMessage("range", f'"{key}" does not match {pattern.pattern}')
    return value


def _peer(row: object) -> TablePeer:
    if not isinstance(row, dict):
        raise InvalidMessage("type", "a peer is not an object")
    try:
        peer_address.split(wire.text(row, "address"))
    except ValueError as error:
        raise InvalidMessage("range", str(error)) from None
    state = wire.text(row, "state")
    if state not in STATES:
        raise InvalidMessage("range", f'"state" is none of {", ".join(STATES)}')
    return TablePeer(
        id=wire.name(row, "id"),
        address=row["address"],
        weight=wire.integer(row, "weight", low=1, high=MAX_WEIGHT),
        baseline=wire.integer(row, "baseline", low=1, high=MAX_WEIGHT),
        state=cast(State, state),
    )
