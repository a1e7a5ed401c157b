"""The servers of an upstream at the addresses for its weight table. Pure.

An IP address has its canonical spelling here; people are shown the one that they typed. A host name has the
address that it resolved to; a server without one is left out. One server has each address
(`shared_addresses`).
"""

from collections.abc import Collection, Mapping

from steelyard_protocol import peer_address
from steelyard_protocol.weight_table import WeightTable

from steelyard_controller.declarations import shared_addresses
from steelyard_controller.declarations.upstream import Upstream

NO_ADDRESSES: Mapping[str, str] = {}


def named_peers(upstream: Upstream) -> frozenset[str]:
    """Return the servers that are declared by a host name."""
    return frozenset(peer.id for peer in upstream.peers if not peer.has_ip)


def canonical(upstream: Upstream) -> tuple[Upstream, Mapping[str, str]]:
    """Return the upstream with canonical IP addresses, and other spellings that were typed, by server."""
    spelled = {
        peer.id: peer_address.canonical_declared(peer.address) for peer in upstream.peers if peer.has_ip
    }
    typed = {
        peer.id: peer.address for peer in upstream.peers if spelled.get(peer.id, peer.address) != peer.address
    }
    if not typed:
        return upstream, NO_ADDRESSES
    peers = [
        peer.model_copy(update={"address": spelled[peer.id]}) if peer.id in typed else peer
        for peer in upstream.peers
    ]
    return upstream.model_copy(update={"peers": peers}), typed


def follow(
    upstream: Upstream,
    named: Collection[str] = (),
    addresses: Mapping[str, str] = NO_ADDRESSES,
    typed: Mapping[str, str] = NO_ADDRESSES,
) -> tuple[Upstream, str | None]:
    """Return a canonical upstream with its servers' addresses, and the fault that servers share one.

    named       the servers that are declared by a host name
    addresses   the IP:port of each of them; without one it is left out
    typed       the spellings to show, as `canonical` returns them
    """
    peers = upstream.peers
    if named:
        peers = [
            peer.model_copy(update={"address": addresses[peer.id]}) if peer.id in named else peer
            for peer in peers
            if peer.id not in named or peer.id in addresses
        ]
    left_out = shared_addresses.hidden(peers, named)
    fault = None
    if left_out:
        fault = shared_addresses.fault(left_out, {**{peer.id: peer.address for peer in peers}, **typed})
    if named or left_out:
        upstream = upstream.model_copy(update={"peers": shared_addresses.without(peers, left_out)})
    return upstream, fault


def resolved(upstream: Upstream, table: WeightTable) -> dict[str, str]:
    """Return the table's IP address for each host name among the declared addresses."""
    published = {peer.id: peer.address for peer in table.peers}
    found = {}
    for peer in upstream.peers:
        if not peer.has_ip and peer.id in published:
            declared, at = peer_address.parsed(peer.address), peer_address.parse(published[peer.id])
            if declared.port == at.port:  # Otherwise the table was made for another declaration.
                found[declared.host] = at.host
    return found
