"""Servers with one address: a single one of them is in the weight table, and a fault names the others. Pure.

Two servers get one address by a typo, by names that resolve to one host, or when a pod starts on a node's
network before the previous one has ended. Envoy would then keep the first endpoint and credit both with all
requests; nginx would send the address a double share. The server that serves wins:

    up before backup before drain before down; among equals an address that is declared before one that a
    name resolved to, and then the one that is declared first
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from steelyard_protocol.weight_table import State

from steelyard_controller.declarations.upstream import Peer

RANKS: Mapping[State, int] = {"up": 0, "backup": 1, "drain": 2, "down": 3}

# Pairs in a fault; these are enough to see what they have in common.
MOST_NAMED = 3


def hidden(peers: Sequence[Peer], named: Collection[str] = ()) -> dict[str, str]:
    """Return the servers that are left out, each with the server that has its address.

    `named` are those that are declared by a host name. Addresses are canonical.
    """
    if len({peer.address for peer in peers}) == len(peers):
        return {}
    of_address: dict[str, list[Peer]] = {}
    for peer in peers:
        of_address.setdefault(peer.address, []).append(peer)
    left_out = {}
    for sharing in of_address.values():
        first = min(sharing, key=lambda peer: (RANKS[peer.state], peer.id in named))
        left_out.update({peer.id: first.id for peer in sharing if peer is not first})
    return left_out


def fault(left_out: Mapping[str, str], addresses: Mapping[str, str]) -> str:
    """Return the fault that servers have one address; `addresses` are those to show."""
    pairs = [f"{peer} and {serving} ({addresses[peer]})" for peer, serving in left_out.items()]
    more = f" and {len(pairs) - MOST_NAMED} more" if len(pairs) > MOST_NAMED else ""
    return (
        f"servers have one address: {', '.join(pairs[:MOST_NAMED])}{more}. The first of each pair gets no"
        " requests of its own: correct its address or remove it"
    )


def without(peers: Iterable[Peer], left_out: Mapping[str, str]) -> list[Peer]:
    """Return the peers without those that are left out."""
    return [peer for peer in peers if peer.id not in left_out]
