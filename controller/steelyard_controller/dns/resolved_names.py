"""The IP address of each host name, and the address of each peer. Pure: no I/O, no clock.

    peer      its own IP:port, or the last address of its name; None before the first answer
    name      keeps its address while that is among the answers; otherwise it gets the first one, in order

So a name with several addresses stays with one of them, even if their order
differs from answer to answer; a fault says how many there are. `resolver` keeps
one `Resolution` for each name.
"""

import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from steelyard_protocol import peer_address

from steelyard_controller.declarations.upstream import Peer

FAULT_AGAIN_S = 5.0
"""A name without an address is resolved again sooner than others: its server may just be starting."""

NOT_YET = "is not resolved yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A name's address (None: never resolved), with the time and fault of the last attempt.

    `unused` is the number of the name's further addresses of that family. A name with an IPv4 and an IPv6
    address is one server; one with two IPv4 addresses may be two.
    """

    ip: str | None
    asked_at_s: float
    fault: str | None = None
    unused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """IP:port by peer, None for a peer that is left out; and faults by name or peer."""

    by_peer: dict[str, str | None]
    faults: dict[str, str]


def choose(previous: str | None, answers: Iterable[str]) -> str | None:
    """Return the previous address if it is still one of the answers, else the first; None without any.

    The first is by number, IPv4 before IPv6. Addresses that nginx cannot connect to are ignored: those with
    a zone, unspecified and multicast ones.
    """
    texts = [str(ip) for ip in _in_order(answers)]
    if previous in texts:
        return previous
    return texts[0] if texts else None


def answered(before: Resolution | None, answers: Collection[str], *, asked_at_s: float) -> Resolution:
    """Return a name's resolution after an answer."""
    ip = choose(None if before is None else before.ip, answers)
    if ip is None:
        return failed(before, "no address that nginx could use", asked_at_s=asked_at_s)
    family = ipaddress.ip_address(ip).version
    unused = sum(each.version == family for each in _in_order(answers)) - 1
    return Resolution(ip=ip, asked_at_s=asked_at_s, unused=unused)


def failed(before: Resolution | None, why: str, *, asked_at_s: float) -> Resolution:
    """Return a name's resolution after a failure; its last address stays."""
    ip = None if before is None else before.ip
    # The words are the same for all names, so that a resolver that is away is one fault.
    then = "its server is left out until it can" if ip is None else "its last address is kept"
    return Resolution(ip=ip, asked_at_s=asked_at_s, fault=f"cannot be resolved ({why}): {then}")


def names(peers: Iterable[Peer]) -> list[str]:
    """Return the names among the peers' addresses, each once, in the peers' order."""
    endpoints = (peer_address.parsed(peer.address) for peer in peers)
    return list(dict.fromkeys(endpoint.host for endpoint in endpoints if endpoint.is_name))


def is_due(known: Resolution | None, *, now_s: float, again_s: float) -> bool:
    """Return whether a name is due: it was never resolved, or too long ago."""
    if known is None:
        return True
    return now_s - known.asked_at_s >= (again_s if known.fault is None else min(again_s, FAULT_AGAIN_S))


def look_up(known: Mapping[str, Resolution], peers: Sequence[Peer]) -> Addresses:
    """Return the peers' addresses, and the faults of names: no address, an old one, or one of several.

    Two peers may get one address; `declarations.shared_addresses` leaves one of them out.
    """
    by_peer: dict[str, str | None] = {}
    faults: dict[str, str] = {}
    for peer in peers:
        endpoint = peer_address.parsed(peer.address)
        ip: str | None = endpoint.host
        if endpoint.is_name:
            resolution = known.get(endpoint.host)
            ip = None if resolution is None else resolution.ip
            fault = _fault(resolution)
            if fault is not None:
                faults[f"name {endpoint.host}"] = fault
        by_peer[peer.id] = None if ip is None else peer_address.join(ip, endpoint.port)
    return Addresses(by_peer=by_peer, faults=faults)


def _fault(resolution: Resolution | None) -> str | None:
    if resolution is None:
        return NOT_YET
    if resolution.fault is None and resolution.unused:
        return (
            f"has {resolution.unused + 1} addresses, and only {resolution.ip} is used: declare a server for"
            " each address, or a name that has one"
        )
    return resolution.fault


def _in_order(answers: Iterable[str]) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    usable = {ip for ip in map(_usable, answers) if ip is not None}
    return sorted(usable, key=lambda ip: (ip.version, int(ip)))


def _usable(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return None
    zone = isinstance(ip, ipaddress.IPv6Address) and ip.scope_id is not None
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped  # The canonical form (`peer_address`).
    return None if zone or ip.is_unspecified or ip.is_multicast else ip
