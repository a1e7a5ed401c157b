"""Parsers of the agent's own settings: the scope, its target, and the outputs. Pure."""

from pathlib import Path
from typing import Literal

from steelyard_protocol import setting_values
from steelyard_protocol.setting_values import Address

Scope = Literal["auto", "host", "cgroup", "process", "pods"]


def scope(text: str) -> Scope:
    """Return a scope."""
    match text:
        case "auto" | "host" | "cgroup" | "process" | "pods":
            return text
    raise ValueError("give auto, host, cgroup, process or pods")


def pid(text: str) -> int:
    """Return the number of a process."""
    if not (setting_values.is_number(text) and len(text) <= 10 and int(text) > 0):
        raise ValueError("give the number of a process, such as 4711")
    return int(text)


def unit(text: str) -> str:
    """Return the name of a systemd unit; one without a suffix is a service."""
    if not text or len(text) > 255 or any(letter.isspace() or letter in "/\0" for letter in text):
        raise ValueError("give the name of a systemd unit, such as nginx.service")
    return text if "." in text else f"{text}.service"


def memcached(text: str) -> tuple[Address, ...]:
    """Return the Memcached servers for samples: none for an agent that only shows them."""
    return () if text == "none" else setting_values.servers(text)


def orca(text: str) -> tuple[Path | None, Address | None]:
    """Return the file and the address of the ORCA output: a text with a slash is a file."""
    remedy = "give a file (/run/steelyard/orca), an address (:9811, on loopback), or both with a comma"
    file, address = None, None
    for part in (part.strip() for part in text.split(",")):
        if "/" in part and file is None:
            file = Path(part)
        elif "/" not in part and address is None:
            address = setting_values.address(part, "127.0.0.1", None, remedy)
        else:
            raise ValueError(remedy)
    return file, address


def orca_grpc(text: str) -> Address:
    """Return the address of the gRPC stream."""
    return setting_values.address(
        text, "127.0.0.1", None, "give an address, such as :9812 (on loopback) or *:9812 (every address)"
    )
