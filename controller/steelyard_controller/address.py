"""IP:port, the only form of address that a picker can use (it cannot resolve names). Pure."""

import ipaddress


def split(address: str) -> tuple[str, int]:
    """Return (ip, port) of `10.0.0.11:80` or `[fd00::13]:80`; raise ValueError with the remedy otherwise."""
    host, colon, port_text = address.rpartition(":")
    if not colon:
        raise ValueError(f"{address!r} has no port: write it as 10.0.0.11:80 or [fd00::13]:80")
    if not (port_text.isascii() and port_text.isdigit() and 1 <= len(port_text) <= 5):
        raise ValueError(f"the port of {address!r} is not a number within 1..65535")
    port = int(port_text)
    if not 1 <= port <= 65535:
        raise ValueError(f"the port of {address!r} is not a number within 1..65535")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        ip: ipaddress.IPv4Address | ipaddress.IPv6Address = (
            ipaddress.IPv6Address(host[1:-1]) if bracketed else ipaddress.IPv4Address(host)
        )
    except ValueError:
        hint = "put an IPv6 address in brackets" if ":" in host else "names are not resolved here"
        raise ValueError(f"{address!r} does not begin with an IP address ({hint})") from None
    return str(ip), port
