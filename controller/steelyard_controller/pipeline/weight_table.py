"""The weight table: the wire format between the controller and nginx.

Pure. The producer is here, the consumer is openresty/lua/steelyard/core; both
ends are tested on docs/contract/weights.json.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from steelyard_agent import wire
from steelyard_agent.wire import Bad, Refused

from steelyard_controller.names import address as addresses

State = Literal["up", "drain", "down", "backup"]
STATES: tuple[str, ...] = get_args(State)

# Published weights are integers of about S = max(1000, 20 k); 10,000 peers make 200,000.
MAX_WEIGHT = 1_000_000

# They go into a request of nginx as they are: nothing in them may end its line.
PATH = re.compile(r"/[!-~]{0,1000}")
HOST = re.compile(r"[A-Za-z0-9.:_\[\]-]{1,253}")

# What a hash picker hashes; nginx has a variable for each.
HASH_KEY = re.compile(r"address|uri|(header|cookie|argument):[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePeer:
    """One row: the effective and the baseline weight of a peer, both of the same total."""

    id: str
    address: str
    weight: int
    baseline: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightTable:
    """What is published; (`term`, `generation`) orders tables, clocks never do.

    `check` (path, statuses, interval_s, timeout_s, rise, fall, host; statuses and host may be None)
    and `hash_key` are stronger than nginx.conf's; None leaves those in force.
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

    @property
    def order(self) -> tuple[int, int]:
        """Return what tables are compared by: a later table has the larger pair."""
        return self.term, self.generation


class TableTooLarge(Exception):
    """The table does not fit a Memcached item."""


def to_document(table: WeightTable) -> dict[str, Any]:
    """Return the table as the JSON object of wire version 1."""
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
        # The last member: nginx reads a long list in slices only where nothing follows.
        "peers": [
            {
                "id": peer.id,
                "address": peer.address,
                "weight": peer.weight,
                "baseline": peer.baseline,
                "state": peer.state,
            }
            for peer in table.peers
        ],
    }


def to_json(table: WeightTable) -> bytes:
    """Return the table as JSON: the same bytes each time, so that a signature holds."""
    return json.dumps(to_document(table), separators=(",", ":"), allow_nan=False).encode()


def encode(table: WeightTable) -> bytes:
    """Return the text of the Memcached value; raise `TableTooLarge` when no Memcached would hold it."""
    value = to_json(table)
    # Memcached's 1 MB covers the item's header and key too, and a signature; a kilobyte is ample for those.
    if len(value) > wire.MAX_BYTES - 1024:
        raise TableTooLarge(
            f"the weight table of {table.upstream} has {len(table.peers)} peers and {len(value)} bytes; "
            f"Memcached holds {wire.MAX_BYTES}: split the upstream"
        )
    return value


def decode(value: bytes) -> WeightTable | Refused:
    """Read a weight table from the network; total, never raises."""
    try:
        document = wire.load_object(value)
        rows = wire.field(document, "peers")
        if not isinstance(rows, list):
            raise Bad("type", '"peers" is not an array')
        peers = tuple(_peer(row) for row in rows)
        if len({peer.id for peer in peers}) != len(peers):
            raise Bad("range", "two peers have the same id")
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
        )
    except Bad as bad:
        return bad.refused


def _check(document: dict[str, Any]) -> dict[str, Any] | None:
    if "check" not in document:
        return None
    row = wire.mapping(document, "check")
    return {
        "path": _matching(row, "path", PATH, longest=1001),
        "statuses": _statuses(row),
        "interval_s": wire.number(row, "interval_s", low=0.1, high=3600.0),
        "timeout_s": wire.number(row, "timeout_s", low=0.05, high=60.0),
        "rise": wire.integer(row, "rise", low=1, high=100),
        "fall": wire.integer(row, "fall", low=1, high=100),
        "host": _matching(row, "host", HOST, longest=253) if row.get("host") is not None else None,
    }


def _statuses(row: dict[str, Any]) -> list[int] | None:
    given = row.get("statuses")
    if given is None:
        return None
    if not isinstance(given, list):
        raise Bad("type", '"statuses" of the check is not an array')
    if not given:
        raise Bad("range", '"statuses" of the check is empty')
    return [wire.integer({"statuses": status}, "statuses", low=100, high=599) for status in given]


def _hash_key(document: dict[str, Any]) -> str | None:
    return _matching(document, "hash_key", HASH_KEY, longest=73) if "hash_key" in document else None


def _matching(document: dict[str, Any], key: str, pattern: re.Pattern[str], *, longest: int) -> str:
    value = wire.text(document, key, longest=longest)
    if not pattern.fullmatch(value):
        raise Bad("range", f'"{key}" does not match {pattern.pattern}')
    return value


def _peer(row: object) -> TablePeer:
    if not isinstance(row, dict):
        raise Bad("type", "a peer is not an object")
    try:
        addresses.split(wire.text(row, "address"))
    except ValueError as error:
        raise Bad("range", str(error)) from None
    state = wire.text(row, "state")
    if state not in STATES:
        raise Bad("range", f'"state" is none of {", ".join(STATES)}')
    return TablePeer(
        id=wire.name(row, "id"),
        address=row["address"],
        weight=wire.integer(row, "weight", low=1, high=MAX_WEIGHT),
        baseline=wire.integer(row, "baseline", low=1, high=MAX_WEIGHT),
        state=cast(State, state),
    )
