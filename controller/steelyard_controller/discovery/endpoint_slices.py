"""The pods of a Service, from its EndpointSlices. Pure: the slices' order does not matter.

    peer       a pod, by its name; an endpoint without a pod, by its address
    zone       the slice's, if it is a valid zone name
    address    IPv4 if the pod has one, else IPv6; the port is the slice's
    ready      neither `ready: false` nor terminating (no condition counts as ready)
    unready    `ready: false`
    terminating, and still serving; an endpoint that no longer serves is gone

An endpoint may be in several slices while it moves between them. Termination is
final, so one slice that reports it is enough. Otherwise one slice that reports
ready is enough. Two pods of one name are a pod and its successor: the serving
one counts.
"""

import hashlib
import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard_protocol import name_list, peer_address, wire

from steelyard_controller.declarations.discovered import Condition, Pod
from steelyard_controller.discovery.objects import Conditions, Endpoint, EndpointSlice

LONGEST_NAME = 64

# Pods named in a fault; these are enough to see what they have in common.
MOST_NAMED = 3

_RANKS: dict[Condition | None, int] = {"ready": 0, "unready": 1, "terminating": 2, None: 3}
"""Among pods of one name, the one with the lowest rank counts; None is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """The pods in the slices of a Service, by name.

    `pods` is None if the slices cannot be followed; then the last known pods stay.
    """

    pods: tuple[Pod, ...] | None
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """An endpoint in one slice."""

    id: str
    uid: str
    is_pod: bool
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    conditions: Conditions
    zone: str | None


def pods_of(slices: Iterable[EndpointSlice], port: str) -> Endpoints:
    """Return the pods of a Service behind the port of this name, which may be empty."""
    ordered = sorted(slices, key=lambda each: each.metadata.name)
    if not ordered:
        return Endpoints(pods=None, fault="it has no EndpointSlice: its last known servers stay")
    entries: list[_Entry] = []
    without_port, odd, long, listed = [], [], [], 0
    for each in ordered:
        number = _port(each, port)
        for endpoint in each.endpoints or ():
            listed += 1
            entry = _entry(each, endpoint, number)
            if entry is not None:
                entries.append(entry)
                if len(_name(endpoint) or "") > LONGEST_NAME:
                    long.append(entry.id)
            elif number is None:
                without_port.append(_name(endpoint) or each.metadata.name)
            else:
                odd.append(_name(endpoint) or each.metadata.name)
    faults = [
        _fault(without_port, f"no TCP port {port or 'without a name'} there: left out"),
        _fault(odd, "no address that nginx could use: left out"),
        _fault(long, f"a name of more than {LONGEST_NAME} characters: cut, so no agent's samples match it"),
    ]
    fault = "; ".join(each for each in faults if each) or None
    if listed and not entries:
        # This is a mistake in the Service, not a Service without pods: the servers must stay.
        return Endpoints(pods=None, fault=f"{fault}; its last known servers stay")
    return Endpoints(pods=_merged(entries), fault=fault)


def _merged(entries: Sequence[_Entry]) -> tuple[Pod, ...]:
    # A pod has one name in both families. Addresses without a pod cannot be matched across families.
    has_v4 = any(not entry.is_pod and entry.ip.version == 4 for entry in entries)
    by_object: dict[str, dict[str, list[_Entry]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        if entry.is_pod or entry.ip.version == 4 or not has_v4:
            by_object[entry.id][entry.uid].append(entry)
    pods = []
    for peer, objects in by_object.items():
        rank, address = min((_RANKS[_condition(each)], _address(each)) for each in objects.values())
        condition = next(each for each in _RANKS if _RANKS[each] == rank)
        if condition is not None:
            zone = next((each.zone for object in objects.values() for each in object if each.zone), None)
            pods.append(Pod(id=peer, address=address, condition=condition, zone=zone))
    return tuple(sorted(pods, key=lambda pod: pod.id))


def _address(entries: Iterable[_Entry]) -> str:
    first = min(entries, key=lambda entry: (entry.ip.version, int(entry.ip), entry.port))
    return peer_address.join(str(first.ip), first.port)


def _condition(entries: Iterable[_Entry]) -> Condition | None:
    """Return the condition of one endpoint from all slices; None: it is gone."""
    conditions = [entry.conditions for entry in entries]
    ending = [each for each in conditions if each.terminating]
    if ending:
        return "terminating" if all(_is_serving(each) for each in ending) else None
    return "ready" if any(each.ready is not False for each in conditions) else "unready"


def _is_serving(conditions: Conditions) -> bool:
    serving = conditions.ready if conditions.serving is None else conditions.serving
    return serving is not False


def _port(endpoint_slice: EndpointSlice, name: str) -> int | None:
    for each in endpoint_slice.ports or ():
        if (each.name or "") == name and (each.protocol or "TCP") == "TCP":
            return each.port if each.port is not None and 1 <= each.port <= 65535 else None
    return None


def _entry(endpoint_slice: EndpointSlice, endpoint: Endpoint, port: int | None) -> _Entry | None:
    if port is None or not endpoint.addresses or endpoint_slice.address_type not in {"IPv4", "IPv6"}:
        return None
    try:
        ip = ipaddress.ip_address(endpoint.addresses[0])
    except ValueError:
        return None
    if ip.is_unspecified or ip.is_multicast or "%" in endpoint.addresses[0]:
        return None
    name = _name(endpoint)
    return _Entry(
        # The address written out, because a peer's name cannot contain a colon.
        id=_peer_id(name) if name else ip.exploded.replace(":", "-"),
        uid=(endpoint.target_ref.uid or "") if endpoint.target_ref else "",
        is_pod=name is not None,
        ip=ip,
        port=port,
        conditions=endpoint.conditions or Conditions(),
        zone=endpoint.zone if wire.NAME.fullmatch(endpoint.zone or "") else None,
    )


def _name(endpoint: Endpoint) -> str | None:
    target = endpoint.target_ref
    return target.name if target is not None and target.kind == "Pod" and target.name else None


def _peer_id(name: str) -> str:
    """Return the pod's name, or if that is no valid peer name, its valid part with a digest."""
    if wire.NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    plain = "".join(each if each.isascii() and each.isalnum() else "-" for each in name).strip("-")
    return f"{plain[: LONGEST_NAME - 13] or 'pod'}-{digest}"


def _fault(peers: list[str], text: str) -> str | None:
    return f"{name_list.shown(sorted(set(peers)), MOST_NAMED)}: {text}" if peers else None
