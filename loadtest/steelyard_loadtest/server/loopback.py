"""Is a request from this machine itself? Pure; it decides who may burn CPU.

A peer address alone does not tell: behind a load balancer on this machine every
client has a loopback address. So the Host must name this machine too (nginx
sends its upstream's name or the client's Host), and a forwarding header means
somebody else stands behind the peer.
"""

import ipaddress
from collections.abc import Mapping

FORWARDING = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


def is_loopback_name(name: str) -> bool:
    """Say whether a host name or address is this machine's loopback."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str:
    """Take the port and the brackets off a Host header."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_local(client: str | None, headers: Mapping[str, str]) -> bool:
    """Say whether client address and headers (lower-case names) are those of a direct local request."""
    if client is None or not is_loopback_name(client):
        return False
    if any(name in headers for name in FORWARDING):
        return False
    return is_loopback_name(host_name(headers.get("host", "")))
