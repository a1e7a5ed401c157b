"""The endpoints of an upstream as Envoy takes them: a weight table in, an encoded ClusterLoadAssignment out.

Pure. An upstream is a cluster by its name, a server an endpoint:

    up, drain, down    priority 0; a drained one is DRAINING, one that is down UNHEALTHY
    backup             priority 1, which Envoy uses where priority 0 has nobody left
    zone               a locality of its own within the priority

Envoy takes a part of the requests to the next priority, or to servers that are not healthy (its panic), as
soon as fewer than 1 / overprovisioning_factor of the endpoints are healthy. Here one healthy server is
enough, as it is for nginx: the factor is 100 % for each endpoint.

Each is encoded once, however many Envoys there are, and in both forms in which it is sent. At each of them
every worker of Envoy begins its turns anew, where few requests lie between two of them always with the same
servers: so what hardly changes (`is_near`) is better not sent each second.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import UnsetType
from steelyard_protocol.weight_table import TablePeer, WeightTable

from steelyard_controller.xds.xds_messages import (
    DRAINING,
    EDS_TYPE,
    UNHEALTHY,
    ClusterLoadAssignment,
    DeltaDiscoveryResponse,
    DiscoveryResponse,
)

# Envoy refuses endpoints of one priority whose weights sum to more.
MOST_IN_ALL = 2**32 - 1

# Envoy's own, in percent.
OVERPROVISIONING = 140

# As part of a weight; a law's steps at rest are mostly smaller.
NEAR = 0.05

_HEALTH = {"drain": DRAINING, "down": UNHEALTHY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One upstream's endpoints; `version` tells whether they, or their weights, are others.

    `whole` and `delta` are the member `resources` of a DiscoveryResponse and of a DeltaDiscoveryResponse.
    """

    version: str
    whole: bytes = field(repr=False)
    delta: bytes = field(repr=False)


def assignment(table: WeightTable) -> Assignment:
    """Return what Envoy is to have of a table."""
    made = ClusterLoadAssignment(cluster_name=table.upstream)
    serving = [peer for peer in table.peers if peer.state != "backup"]
    backups = [peer for peer in table.peers if peer.state == "backup"]
    for priority, peers in enumerate((serving, backups) if serving else (backups,)):
        if not peers:
            continue
        localities: dict[str | UnsetType, object] = {}
        for peer, weight in zip(peers, _bounded([peer.weight for peer in peers]), strict=True):
            if peer.zone not in localities:
                zone = {"zone": peer.zone} if peer.zone else None
                localities[peer.zone] = made.endpoints.add(priority=priority, locality=zone)
            _add(localities[peer.zone], peer, weight)
    made.policy.overprovisioning_factor.value = max(OVERPROVISIONING, 100 * len(table.peers))
    value = made.SerializeToString(deterministic=True)
    version = hashlib.blake2b(value, digest_size=8).hexdigest()
    whole, delta = DiscoveryResponse(), DeltaDiscoveryResponse()
    whole.resources.add(type_url=EDS_TYPE, value=value)
    resource = delta.resources.add(name=table.upstream, version=version)
    resource.resource.type_url, resource.resource.value = EDS_TYPE, value
    return Assignment(version=version, whole=whole.SerializeToString(), delta=delta.SerializeToString())


def is_near(before: WeightTable, now: WeightTable) -> bool:
    """Tell whether two tables differ in weights alone, and each weight by no more than `NEAR`."""
    return len(before.peers) == len(now.peers) and all(
        (old.id, old.address, old.state, old.zone) == (new.id, new.address, new.state, new.zone)
        and abs(new.weight - old.weight) <= NEAR * old.weight
        for old, new in zip(before.peers, now.peers, strict=True)
    )


def _add(locality: object, peer: TablePeer, weight: int) -> None:
    host, _, port = peer.address.rpartition(":")
    endpoint = locality.lb_endpoints.add(health_status=_HEALTH.get(peer.state, 0))  # type: ignore[attr-defined]
    address = endpoint.endpoint.address.socket_address
    address.address, address.port_value = host.strip("[]"), int(port)
    endpoint.load_balancing_weight.value = weight


def _bounded(weights: Sequence[int]) -> Sequence[int]:
    """Return weights in the same proportions, each at least 1, that sum to what Envoy takes."""
    total = sum(weights)
    if total <= MOST_IN_ALL:
        return weights
    room = MOST_IN_ALL - len(weights)
    return [max(1, weight * room // total) for weight in weights]
