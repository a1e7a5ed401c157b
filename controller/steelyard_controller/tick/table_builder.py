"""Builds the weight tables of an upstream's decisions; refuses upstreams with too large a table. Pure."""

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace
from steelyard_protocol import weight_table
from steelyard_protocol.weight_table import MAX_WEIGHT, TablePeer, TableTooLarge, WeightTable

from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.laws.decision import Decision

# A row has at most 64 + 260 + 64 characters of names, and some 100 others.
PEERS_THAT_ALWAYS_FIT = 17_000


class TableBuilder:
    """Builds the tables of one upstream; a tick makes only the rows that it changes.

    The members that a declaration fixes, and so the digest, are those of the previous table until the
    declaration, the reporters or the zones change.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._upstream: Upstream | None = None
        self._last: WeightTable | None = None

    def build(
        self,
        decision: Decision,
        upstream: Upstream,
        *,
        term: int,
        generation: int,
        issued_at_ms: int,
        reporters: tuple[str, ...] = (),
        zones: tuple[str, ...] | None = None,
    ) -> WeightTable:
        """Return the table of a decision on `upstream`, whose peers are in the decision's order.

        Weights and baselines both sum to S at every tick. So a person can compare the two columns, and two
        tables. A picker divides the weights by their common divisor.

        reporters   the load balancers whose reports are read and arrive
        zones       the names of the zones; their factors are still to be decided
        """
        weights, baselines = decision.integers()
        last = self._last if self._upstream is upstream else None
        if last is None or (last.reporters, last.zones) != (reporters, zones):
            figures = zip(upstream.peers, weights, baselines, strict=True)
            table = WeightTable(
                term=term,
                generation=generation,
                issued_at_ms=issued_at_ms,
                **_fixed(self._name, upstream, reporters, zones),
                peers=tuple([_row(*each) for each in figures]),
            )
            table = weight_table.with_digest(table, [peer.baseline for peer in upstream.peers])
        else:
            rows = [
                row
                if row.weight == weight and row.baseline == baseline
                else replace(row, weight=weight, baseline=baseline)
                for row, weight, baseline in zip(last.peers, weights, baselines, strict=True)
            ]
            table = replace(
                last, term=term, generation=generation, issued_at_ms=issued_at_ms, peers=tuple(rows)
            )
        self._upstream, self._last = upstream, table
        return table


def _fixed(
    name: str, upstream: Upstream, reporters: tuple[str, ...], zones: tuple[str, ...] | None
) -> dict[str, Any]:
    return {
        "upstream": name,
        "law": upstream.law if upstream.blend is None or upstream.blend.percent < 100 else upstream.blend.law,
        "picker": upstream.picker,
        "check": None if upstream.check is None else upstream.check.model_dump(),
        "hash_key": upstream.hash_key,
        "max_conns": upstream.max_conns,
        "reporters": reporters,
        "zones": zones,
    }


def _row(peer: Peer, weight: int, baseline: int) -> TablePeer:
    return TablePeer(
        id=peer.id,
        address=peer.address,
        weight=weight,
        baseline=baseline,
        state=peer.state,
        zone=peer.zone or UNSET,
        pinned=UNSET if peer.pin is None else True,
        max_conns=peer.max_conns or UNSET,
    )


def refuse_unpublishable(name: str, upstream: Upstream) -> None:
    """Raise ValueError for an upstream whose table is too large for nginx."""
    if len(upstream.peers) <= PEERS_THAT_ALWAYS_FIT:
        return
    rows = tuple(
        TablePeer(
            id=peer.id, address=peer.address, weight=MAX_WEIGHT, baseline=MAX_WEIGHT, state=peer.state,
            zone=peer.zone or UNSET, pinned=True, max_conns=peer.max_conns or UNSET,
        )
        for peer in upstream.peers
    )  # fmt: skip
    table = WeightTable(
        upstream=name, term=2**53, generation=2**53, issued_at_ms=2**53, law=upstream.law,
        picker=upstream.picker, peers=rows,
    )  # fmt: skip
    try:
        weight_table.encode(table)
    except TableTooLarge as error:
        raise ValueError(str(error)) from None
