"""Builds the weight table of a decision; refuses upstreams with too large a table. Pure."""

from msgspec import UNSET
from steelyard_protocol import weight_table
from steelyard_protocol.weight_table import MAX_WEIGHT, TablePeer, TableTooLarge, WeightTable

from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.laws.decision import Decision

# A row has at most 64 + 260 + 64 characters of names, and some 100 others.
PEERS_THAT_ALWAYS_FIT = 17_000


def build_table(
    decision: Decision,
    upstream: Upstream,
    *,
    name: str,
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
    rows = zip(
        upstream.peers,
        decision.published.tolist(),
        decision.published_baseline.tolist(),
        strict=True,
    )
    table = WeightTable(
        upstream=name,
        term=term,
        generation=generation,
        issued_at_ms=issued_at_ms,
        law=upstream.law if upstream.blend is None or upstream.blend.percent < 100 else upstream.blend.law,
        picker=upstream.picker,
        check=None if upstream.check is None else upstream.check.model_dump(),
        hash_key=upstream.hash_key,
        max_conns=upstream.max_conns,
        reporters=reporters,
        zones=zones,
        peers=tuple(
            TablePeer(
                id=peer.id,
                address=peer.address,
                weight=weight,
                baseline=baseline,
                state=peer.state,
                zone=peer.zone or UNSET,
                pinned=UNSET if peer.pin is None else True,
                max_conns=peer.max_conns or UNSET,
            )
            for peer, weight, baseline in rows
        ),
    )
    return weight_table.with_digest(table, [peer.baseline for peer in upstream.peers])


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
