"""Whether the table of an upstream can be published at all. Pure."""

from steelyard_controller.declared.upstream import Upstream
from steelyard_controller.pipeline import weight_table
from steelyard_controller.pipeline.weight_table import MAX_WEIGHT, TablePeer, TableTooLarge, WeightTable

# A row has at most 64 + 260 characters of names, and some 80 more.
PEERS_THAT_ALWAYS_FIT = 2000


def refuse_unpublishable(name: str, upstream: Upstream) -> None:
    """Raise ValueError for an upstream whose table no Memcached would hold."""
    if len(upstream.peers) <= PEERS_THAT_ALWAYS_FIT:
        return
    rows = tuple(
        TablePeer(id=peer.id, address=peer.address, weight=MAX_WEIGHT, baseline=MAX_WEIGHT, state=peer.state)
        for peer in upstream.peers
    )
    table = WeightTable(
        upstream=name, term=2**53, generation=2**53, issued_at_ms=2**53, law=upstream.law,
        picker=upstream.picker, peers=rows,
    )  # fmt: skip
    try:
        weight_table.encode(table)
    except TableTooLarge as error:
        raise ValueError(str(error)) from None
