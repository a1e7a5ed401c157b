"""What is known of the names in addresses, and what that makes of the peers. Pure: no I/O, no clock.

    known     the peer's own IP:port; or that of its name, the last one that was found; None before any was
    choice    the address that a name had, while it is among the answers; else the first of them, in order

A name that has several addresses, in an order that differs with each answer,
thus stays with one of them. `resolve` asks, and keeps one `Known` for each name.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from steelyard_controller.names import address

FAULT_AGAIN_S = 5.0
"""A name that was not found is asked for sooner than one that was: its server may be starting just now."""

NOT_YET = "is not resolved yet"


class Addressed(Protocol):
    """A peer, as far as its address goes."""

    @property
    def id(self) -> str:
        """Return its name in the upstream."""
        ...

    @property
    def address(self) -> str:
        """Return what `address.parse` takes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A name's address (None: never found), when it was last asked for, and what was wrong then."""

    ip: str | None
    asked_at_s: float
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """IP:port by peer, None for one that is left out; and by name or peer what is wrong with it."""

    by_peer: dict[str, str | None]
    faults: dict[str, str]


def choose(previous: str | None, answers: Iterable[str]) -> str | None:
    """Return the previous address if it is still one of the answers, else the first; None without any.

    The first by number, IPv4 before IPv6. What nginx cannot connect to is no answer:
    an address with a zone, an unspecified or a multicast one.
    """
    found = sorted(
        {ip for ip in map(_usable, answers) if ip is not None}, key=lambda ip: (ip.version, int(ip))
    )
    texts = [str(ip) for ip in found]
    if previous in texts:
        return previous
    return texts[0] if texts else None


def answered(before: Known | None, answers: Iterable[str], *, asked_at_s: float) -> Known:
    """Return what is known of a name after an answer."""
    ip = choose(None if before is None else before.ip, answers)
    if ip is None:
        return failed(before, "no address that nginx could use", asked_at_s=asked_at_s)
    return Known(ip=ip, asked_at_s=asked_at_s)


def failed(before: Known | None, why: str, *, asked_at_s: float) -> Known:
    """Return what is known of a name that could not be resolved: its last address stays."""
    ip = None if before is None else before.ip
    then = "its server is left out until it can" if ip is None else f"{ip} is kept"
    return Known(ip=ip, asked_at_s=asked_at_s, fault=f"cannot be resolved ({why}): {then}")


def names(peers: Iterable[Addressed]) -> list[str]:
    """Return the names among the peers' addresses, each once, in the peers' order."""
    endpoints = (address.parse(peer.address) for peer in peers)
    return list(dict.fromkeys(endpoint.host for endpoint in endpoints if endpoint.is_name))


def is_due(known: Known | None, *, now_s: float, again_s: float) -> bool:
    """Tell whether a name is to be asked for: never asked yet, or its time is up."""
    if known is None:
        return True
    return now_s - known.asked_at_s >= (again_s if known.fault is None else min(again_s, FAULT_AGAIN_S))


def look_up(known: Mapping[str, Known], peers: Sequence[Addressed]) -> Addresses:
    """Return the peers' addresses, and what is wrong with those that have none or an old one.

    No two peers get one address by way of a name, or its server would get two
    shares: the first keeps it, where one that is declared as IP:port is before all names.
    """
    endpoints = {peer.id: address.parse(peer.address) for peer in peers}
    by_peer: dict[str, str | None] = {peer.id: None for peer in peers}
    faults: dict[str, str] = {}
    taken: dict[str, str] = {}
    for peer in peers:
        endpoint = endpoints[peer.id]
        if not endpoint.is_name:
            by_peer[peer.id] = address.join(endpoint.host, endpoint.port)
            taken.setdefault(address.join(endpoint.host, endpoint.port), peer.id)
    for peer in peers:
        endpoint = endpoints[peer.id]
        if not endpoint.is_name:
            continue
        found = known.get(endpoint.host)
        if found is None or found.fault is not None:
            faults[f"name {endpoint.host}"] = NOT_YET if found is None else found.fault or ""
        if found is None or found.ip is None:
            continue
        where = address.join(found.ip, endpoint.port)
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
