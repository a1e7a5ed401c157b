"""Checks of requests: query arguments with bounds, and permission to burn CPU. Pure.

It knows nothing of HTTP beyond headers and the status of a refusal. Bounds prevent a typing error from
filling the disk or the memory of the demo's machine.

Only a request from this machine itself may burn CPU. A peer address alone does not show that, because behind
a load balancer on this machine every client has a loopback address. So the Host must name this machine, too
(nginx sends its upstream's name or the client's Host). A forwarding header means that the peer forwards for
another client.
"""

import argparse
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from steelyard_loadtest.server.bounds import whole

FORWARDING = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class Argument:
    """One query argument, its unit, its default and its bounds (both ends included)."""

    name: str
    unit: str
    default: int
    lowest: int
    highest: int


WORK = Argument("work", "products", default=1, lowest=1, highest=100)
SLEEP_MS = Argument("ms", "ms", default=50, lowest=0, highest=60_000)
BODY_BYTES = Argument("n", "bytes", default=1024, lowest=0, highest=16 * 1024**2)
FILE_BYTES = Argument("bytes", "bytes", default=64 * 1024, lowest=1, highest=16 * 1024**2)
BURN_SECONDS = Argument("seconds", "s", default=20, lowest=1, highest=600)
COLD_ENTRIES = Argument("entries", "entries", default=100, lowest=1, highest=100_000)
COLD_TIMES = Argument("times", "products", default=10, lowest=1, highest=100)
BURN_PERCENT = Argument("percent", "percent of the limit", default=100, lowest=1, highest=100)
BURN_WORKERS = Argument("workers", "processes", default=2, lowest=1, highest=8)


def read(argument: Argument, query: Mapping[str, str]) -> int:
    """Return the argument's value, or its default if absent. Raises HTTPException."""
    parse = whole(argument.lowest, argument.highest, argument.unit)
    try:
        return parse(query.get(argument.name, str(argument.default)))
    except argparse.ArgumentTypeError as refused:
        raise HTTPException(400, f"{argument.name} must be {refused}") from None


def is_loopback_name(name: str) -> bool:
    """Return whether a host name or address is this machine's loopback."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str:
    """Return a Host header without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_local(client: str | None, headers: Mapping[str, str]) -> bool:
    """Return whether client address and headers (lower-case names) are those of a direct local request."""
    if client is None or any(name in headers for name in FORWARDING):
        return False
    return is_loopback_name(client) and is_loopback_name(host_name(headers.get("host", "")))
