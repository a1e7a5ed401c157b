"""Parsers of --register, --address and the token; `setting_values` parses the others. Pure."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal

from steelyard_protocol import peer_address, setting_values
from steelyard_protocol.setting_values import Address

AUTO = "auto"
"""The host of an address that is this machine's IP in its connection to the controller."""

HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\.?")
URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@]+)(?::([0-9]+))?(/[A-Za-z0-9._~/-]*)?")
TOKEN = re.compile(r"[!-~]{1,1024}")


@dataclass(frozen=True, slots=True)
class Url:
    """A controller's URL; `path` is the part before /v1, without a slash at its end."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{peer_address.join(self.host, self.port)}{self.path}"


def urls(text: str) -> tuple[Url, ...]:
    """Return the URLs of controllers, each once."""
    return tuple(dict.fromkeys(_url(part.strip()) for part in text.split(",")))


def service_address(text: str) -> Address:
    """Return the address at which nginx reaches this server; its host may be `AUTO`."""
    remedy = (
        "give auto:PORT, or HOST:PORT as nginx reaches this server, such as 10.0.0.11:80 or [fd00::11]:80"
    )
    host, port = setting_values.address(text, None, None, remedy)
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        if not HOST.fullmatch(host):
            raise ValueError(remedy) from None
    else:
        if ip.is_unspecified or ip.is_multicast or "%" in host:
            raise ValueError(f"nginx cannot connect to that: {remedy}")
    return host, port


def token(secret: bytes) -> str:
    """Return the token in a text: its first non-empty line, as in the controller's own files."""
    lines = [line.strip() for line in secret.decode("latin-1").splitlines()]
    first = next((line for line in lines if line), "")
    if not TOKEN.fullmatch(first):
        raise ValueError("a token is 1 to 1024 ASCII letters, digits and signs, without spaces")
    return first


def _url(text: str) -> Url:
    match = URL.fullmatch(text)
    scheme, host, port, path = match.groups() if match else ("", "", None, None)
    secure = scheme == "https"
    remedy = "give http://HOST:PORT or https://HOST:PORT of each controller, with commas between"
    host, number = setting_values.address(f"{host}:{port or ''}", None, 443 if secure else 80, remedy)
    if not (HOST.fullmatch(host) or _is_v6(host)):
        raise ValueError(remedy)
    return Url("https" if secure else "http", host, number, (path or "").rstrip("/"))


def _is_v6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True
