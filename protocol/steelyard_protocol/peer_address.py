"""A peer's address: declared as IP:port or name:port, and IP:port for a picker. Pure.

One address has many spellings. A weight table has the canonical one, and addresses are only compared by that:

    IPv4      as it is; no other spelling is accepted
    IPv6      RFC 5952: lower case, the longest run of zeros as ::
    IPv4 in IPv6 (::ffff:10.0.0.11)   the IPv4 address, because a connection to it is one by IPv4
    name      lower case. A dot at its end stays: it keeps the resolver from trying its search domains
    port      without leading zeros

docs/contract/addresses.json has examples. The reader in Lua is core/address.lua.

A name is one of RFC 1123: labels of 1 to 63 letters, digits and dashes, 253
characters in all. The last label is no number, as in 10.0.0 or 0x7f000001:
a resolver would read that as another IP address.
"""

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache

LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
LONGEST_NAME = 253

# ipaddress takes ten times as long, and a controller with 2,000 upstreams begins with 60,000 addresses.
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = re.compile(rf"(?:{_OCTET}\.){{3}}{_OCTET}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server's listen address; `host` is canonical: an IP address without brackets, or a name."""

    host: str
    port: int
    is_name: bool


def is_name(address: str) -> bool:
    """Return whether an address accepted by `parse` is name:port, in a twentieth of the time."""
    return address[0] != "[" and not address.rpartition(":")[0].rpartition(".")[2].isdigit()


def parse(address: str) -> Endpoint:
    """Return the endpoint of IP:port, [v6]:port or name:port; raise ValueError with the remedy otherwise."""
    host, port = _parts(address)
    ip = _ip(host)
    if ip is not None:
        return Endpoint(host=ip, port=port, is_name=False)
    if ":" in host or "[" in host or "]" in host:
        raise ValueError(_wrong_v6(address, host))
    labels = host.removesuffix(".").split(".")
    if NUMBER.fullmatch(labels[-1]):
        raise ValueError(
            f"{_short(address)} is no IP address, and no name either (a name does not end in a number): "
            "write it as 10.0.0.11:80, [fd00::13]:80 or web-1.example:80"
        )
    if len(host.removesuffix(".")) > LONGEST_NAME:
        raise ValueError(f"the name in {_short(address)} has more than {LONGEST_NAME} characters")
    for label in labels:
        if not LABEL.fullmatch(label):
            raise ValueError(
                f"{label[:70]!r} in {_short(address)} cannot be a part of a name: give 1 to 63 letters, "
                "digits and dashes, no dash first or last"
            )
    return Endpoint(host=host.lower(), port=port, is_name=True)


parsed = lru_cache(maxsize=2**16)(parse)
"""`parse` with a memory, for upstreams with names, which parse at every tick: 10,000 cost 1 ms, not 50.

Other callers must not use it: ever new addresses would fill it, 22 MB.
"""


def canonical(address: str) -> str:
    """Return the canonical spelling of an address; raise ValueError with the remedy if it is none."""
    endpoint = parse(address)
    return join(endpoint.host, endpoint.port)


def canonical_declared(address: str) -> str:
    """Return the canonical spelling of a declared address, quickly: they come at every tick."""
    has_plain_port = address[address.rfind(":") + 1] != "0"
    if has_plain_port and address[0] != "[" and not is_name(address):
        return address  # IPv4 has one spelling.
    endpoint = parsed(address)
    return join(endpoint.host, endpoint.port)


def same(one: str, other: str) -> bool:
    """Return whether two texts accepted by `parse` are one address."""
    return one == other or canonical(one) == canonical(other)


def split(address: str) -> tuple[str, int]:
    """Return the canonical (ip, port) of an IP:port; raise ValueError with the remedy if it is none."""
    host, port = _parts(address)
    ip = _ip(host)
    if ip is None:
        raise ValueError(
            _wrong_v6(address, host)
            if ":" in host
            else f"{_short(address)} does not begin with an IP address (names are not resolved here)"
        )
    return ip, port


def join(host: str, port: int) -> str:
    """Return a host and a port as a picker takes them and an operator writes them: IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parts(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon:
        raise ValueError(f"{_short(address)} has no port: write it as 10.0.0.11:80 or [fd00::13]:80")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise ValueError(f"the port of {_short(address)} is not a number within 1..65535")
    return host, int(port)


def _ip(host: str) -> str | None:
    # A zone (fe80::1%eth0) has a meaning on one machine only; nginx accepts none.
    if IPV4.fullmatch(host):
        return host
    if "%" in host:
        return None
    try:
        if host.startswith("[") and host.endswith("]"):
            ip = ipaddress.IPv6Address(host[1:-1])
            return str(ip if ip.ipv4_mapped is None else ip.ipv4_mapped)
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        return None


def _wrong_v6(address: str, host: str) -> str:
    hint = "leave out the zone" if "%" in host else "put an IPv6 address in brackets"
    return f"{_short(address)} does not begin with an IP address ({hint})"


def _short(address: str) -> str:
    return repr(address if len(address) <= 80 else f"{address[:77]}...")
