"""The host of a listening socket: `*` is every address of this machine, of IPv4 and IPv6. Pure.

`0.0.0.0` has no IPv6, and `::` no IPv4 in asyncio. A machine with both families needs both: in a dual-stack
cluster, probes use the family that a pod has first.
"""

from steelyard_protocol import peer_address

EVERYWHERE = "*"


def asyncio_host(host: str) -> str:
    """Return the host for asyncio: an empty one opens a socket for each family that the machine has."""
    return "" if host == EVERYWHERE else host


def grpc_target(host: str, port: int) -> str:
    """Return the address for gRPC, which listens for both families on `[::]`; without IPv6, for IPv4."""
    return peer_address.join("::" if host == EVERYWHERE else host, port)
