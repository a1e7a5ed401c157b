"""The endpoints of an upstream for Envoy: a weight table in, an encoded ClusterLoadAssignment out.

Pure. An upstream is a cluster of that name, a server is an endpoint:

    up                 priority 0
    backup             priority 1, which Envoy uses if priority 0 has no healthy server
    drain, down        left out; UNHEALTHY in the farewell before that
    zone               a locality of its own within the priority

Envoy sends a part of the requests to the next priority, or to unhealthy servers (its panic), as soon as fewer
than 1 / overprovisioning_factor of the endpoints are healthy. Here, as with nginx, one healthy server is
enough: the factor is 100 % for each endpoint. Without a healthy server Envoy uses all of its endpoints,
DRAINING and UNHEALTHY ones too. So a server that a person has taken out must not be an endpoint. If
the cluster lacks `ignore_health_on_host_removal`, Envoy keeps an endpoint that is left out for as long as
it passes Envoy's checks, DRAINING ones too. An UNHEALTHY endpoint goes: hence the farewell.

Endpoints are encoded once for all Envoys, in both forms. Each time they arrive, every worker of an Envoy
restarts its rotation. With few requests between two updates, the same servers would always come first. So
small changes (`differs_little`) are not sent each second.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from msgspec import UnsetType
from steelyard_protocol.small_changes import SMALL_SHARE
from steelyard_protocol.weight_table import TablePeer, WeightTable

from steelyard_controller.xds.xds_messages import (
    EDS_TYPE,
    UNHEALTHY,
    ClusterLoadAssignment,
    DeltaDiscoveryResponse,
    DiscoveryResponse,
)

# Envoy refuses endpoints of one priority if their weights sum to more.
MOST_IN_ALL = 2**32 - 1

# Envoy's default factor.
OVERPROVISIONING_PERCENT = 140

OUT = frozenset({"drain", "down"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One upstream's endpoints; another `version` means other endpoints or weights.

    `whole` and `delta` are the member `resources` of a DiscoveryResponse and of a DeltaDiscoveryResponse.
    `out` are the addresses of the servers that are left out. An Envoy that may have some of them gets their
    `farewell` first.
    """

    version: str
    whole: bytes = field(repr=False)
    delta: bytes = field(repr=False)
    out: frozenset[str] = frozenset()
    _table: WeightTable = field(repr=False, compare=False)
    _farewells: dict[frozenset[str], "Assignment"] = field(default_factory=dict, repr=False, compare=False)

    def farewell(self, leaving: frozenset[str]) -> "Assignment":
        """Return these endpoints with those of `out` that leave, as UNHEALTHY.

        It is encoded once for all Envoys. Only those with earlier endpoints than the last ones need another.
        """
        if leaving not in self._farewells:
            listed = [peer for peer in self._table.peers if peer.state not in OUT or peer.address in leaving]
            self._farewells[leaving] = _encoded(self._table, listed)
        return self._farewells[leaving]


def assignment(table: WeightTable) -> Assignment:
    """Return the endpoints of a table for Envoy."""
    made = _encoded(table, [peer for peer in table.peers if peer.state not in OUT])
    out = frozenset(peer.address for peer in table.peers if peer.state in OUT)
    return replace(made, out=out)


def _encoded(table: WeightTable, listed: Sequence[TablePeer]) -> Assignment:
    """Return the endpoints of these servers; if all of them leave, Envoy answers every request by 503."""
    message = ClusterLoadAssignment(cluster_name=table.upstream)
    serving = [peer for peer in listed if peer.state != "backup"]
    backups = [peer for peer in listed if peer.state == "backup"]
    for priority, peers in enumerate((serving, backups) if serving else (backups,)):
        if not peers:
            continue
        localities: dict[str | UnsetType, object] = {}
        for peer, weight in zip(peers, _bounded([peer.weight for peer in peers]), strict=True):
            if peer.zone not in localities:
                zone = {"zone": peer.zone} if peer.zone else None
                localities[peer.zone] = message.endpoints.add(priority=priority, locality=zone)
            _add(localities[peer.zone], peer, weight)
    message.policy.overprovisioning_factor.value = max(OVERPROVISIONING_PERCENT, 100 * len(listed))
    if listed and all(peer.state in OUT for peer in listed):
        message.policy.drop_overloads.add(category="steelyard").drop_percentage.numerator = 100
    value = message.SerializeToString(deterministic=True)
    version = hashlib.blake2b(value, digest_size=8).hexdigest()
    whole, delta = DiscoveryResponse(), DeltaDiscoveryResponse()
    whole.resources.add(type_url=EDS_TYPE, value=value)
    resource = delta.resources.add(name=table.upstream, version=version)
    resource.resource.type_url, resource.resource.value = EDS_TYPE, value
    return Assignment(
        version=version, whole=whole.SerializeToString(), delta=delta.SerializeToString(), _table=table
    )


def differs_little(before: WeightTable, now: WeightTable) -> bool:
    """Return whether two tables differ in weights only, each by at most `SMALL_SHARE`."""
    return len(before.peers) == len(now.peers) and all(
        (old.id, old.address, old.state, old.zone) == (new.id, new.address, new.state, new.zone)
        and abs(new.weight - old.weight) <= SMALL_SHARE * old.weight
        for old, new in zip(before.peers, now.peers, strict=True)
    )


def _add(locality: object, peer: TablePeer, weight: int) -> None:
    host, _, port = peer.address.rpartition(":")
    health = UNHEALTHY if peer.state in OUT else 0
    endpoint = locality.lb_endpoints.add(health_status=health)  # type: ignore[attr-defined]
    address = endpoint.endpoint.address.socket_address
    address.address, address.port_value = host.strip("[]"), int(port)
    endpoint.load_balancing_weight.value = weight


def _bounded(weights: Sequence[int]) -> Sequence[int]:
    """Return weights in the same proportions, each at least 1, with a sum that Envoy accepts."""
    total = sum(weights)
    if total <= MOST_IN_ALL:
        return weights
    room = MOST_IN_ALL - len(weights)
    return [max(1, weight * room // total) for weight in weights]
