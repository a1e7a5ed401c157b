"""Which IP address each host name has, and which address each peer gets from that. Pure: no I/O, no clock.

    peer      its own IP:port, or the last address that its name resolved to; None before any
    name      keeps its address while that is among the answers; otherwise it gets the first one, in order

So a name with several addresses, in an order that differs from answer to
answer, stays with one of them. `resolver` keeps one `Resolution` for each name.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from steelyard_protocol import peer_address

from steelyard_controller.declarations.upstream import Peer

FAULT_AGAIN_S = 5.0
"""A name that was not found is resolved again sooner than others: its server may just be starting."""

NOT_YET = "is not resolved yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A name's address (None: never found), when it was last resolved, and the fault of that time."""

    ip: str | None
    asked_at_s: float
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """IP:port by peer, None for one that is left out; and faults by name or peer."""

    by_peer: dict[str, str | None]
    faults: dict[str, str]


def choose(previous: str | None, answers: Iterable[str]) -> str | None:
    """Return the previous address if it is still one of the answers, else the first; None without any.

    The first by number, IPv4 before IPv6. What nginx cannot connect to is no answer:
    an address with a zone, an unspecified or a multicast one.
    """
    usable = sorted(
        {ip for ip in map(_usable, answers) if ip is not None}, key=lambda ip: (ip.version, int(ip))
    )
    texts = [str(ip) for ip in usable]
    if previous in texts:
        return previous
    return texts[0] if texts else None


def answered(before: Resolution | None, answers: Iterable[str], *, asked_at_s: float) -> Resolution:
    """Return a name's resolution after an answer."""
    ip = choose(None if before is None else before.ip, answers)
    if ip is None:
        return failed(before, "no address that nginx could use", asked_at_s=asked_at_s)
    return Resolution(ip=ip, asked_at_s=asked_at_s)


def failed(before: Resolution | None, why: str, *, asked_at_s: float) -> Resolution:
    """Return a name's resolution after a failure: its last address stays."""
    ip = None if before is None else before.ip
    then = "its server is left out until it can" if ip is None else f"{ip} is kept"
    return Resolution(ip=ip, asked_at_s=asked_at_s, fault=f"cannot be resolved ({why}): {then}")


def names(peers: Iterable[Peer]) -> list[str]:
    """Return the names among the peers' addresses, each once, in the peers' order."""
    endpoints = (peer_address.parsed(peer.address) for peer in peers)
    return list(dict.fromkeys(endpoint.host for endpoint in endpoints if endpoint.is_name))


def is_due(known: Resolution | None, *, now_s: float, again_s: float) -> bool:
    """Tell whether a name is to be resolved: it never was, or that was too long ago."""
    if known is None:
        return True
    return now_s - known.asked_at_s >= (again_s if known.fault is None else min(again_s, FAULT_AGAIN_S))


def look_up(known: Mapping[str, Resolution], peers: Sequence[Peer]) -> Addresses:
    """Return the peers' addresses, and the faults of those that have none or an old one.

    No two peers get the same address through a name, or its server would get two shares of the requests:
    the first keeps it, and a peer that is declared by IP:port comes before all names.
    """
    endpoints = {peer.id: peer_address.parsed(peer.address) for peer in peers}
    by_peer: dict[str, str | None] = {peer.id: None for peer in peers}
    faults: dict[str, str] = {}
    taken: dict[str, str] = {}
    for peer in peers:
        endpoint = endpoints[peer.id]
        if not endpoint.is_name:
            by_peer[peer.id] = peer_address.join(endpoint.host, endpoint.port)
            taken.setdefault(peer_address.join(endpoint.host, endpoint.port), peer.id)
    for peer in peers:
        endpoint = endpoints[peer.id]
        if not endpoint.is_name:
            continue
        found = known.get(endpoint.host)
        if found is None or found.fault is not None:
            faults[f"name {endpoint.host}"] = NOT_YET if found is None else found.fault or ""
        if found is None or found.ip is None:
            continue
        where = peer_address.join(found.ip, endpoint.port)
        first = taken.setdefault(where, peer.id)
        if first == peer.id:
            by_peer[peer.id] = where
        else:
            faults[f"peer {peer.id}"] = (
                f"{peer.address} is {where}, which {first} has already: it is left out; give each its own"
            )
    return Addresses(by_peer=by_peer, faults=faults)


def _usable(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return None
    zone = isinstance(ip, ipaddress.IPv6Address) and ip.scope_id is not None
    return None if zone or ip.is_unspecified or ip.is_multicast else ip
