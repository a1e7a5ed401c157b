"""Keys derived from the shared key, each valid for one sender only.

Pure. HKDF-SHA256 (RFC 5869) of the shared key; 32 bytes are one block of it, so it is two HMACs:

    prk = HMAC(salt "steelyard", shared key)
    key = hex(HMAC(prk, name . 0x01))

The hex digits are the key, as a file holds them. `name` is one of

    agent UPSTREAM/PEER    signs the samples of one server
    agents                 signs the samples of any server: for an agent that samples many
    lb NAME                signs the traffic reports of one load balancer
    tables                 signs weight tables: controllers and load balancers have it
    token UPSTREAM/PEER    is no key, but the end of that server's token for the API

The holder of a derived key can compute neither another one nor the shared key. A table is one value for many
readers, so each reader could sign one. These readers are load balancers, never servers.
"""

import hmac
import re
from dataclasses import dataclass, field

SALT = b"steelyard"

TABLES = "tables"

AGENTS = "agents"

_OF_LOAD_BALANCER = re.compile(rb"lb\.([0-9a-f]{64})\.([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancerKeys:
    """The keys of a load balancer: the possible signers of a table, and the signer of its reports."""

    tables: tuple[bytes, ...] = field(repr=False)
    reports: bytes = field(repr=False)


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """Return the first 32 bytes of HKDF-SHA256."""
    return hmac.digest(hmac.digest(salt, secret, "sha256"), info + b"\x01", "sha256")


def derive(shared: bytes, name: str) -> bytes:
    """Return the key of this name, in hex digits."""
    return hkdf(shared, SALT, name.encode()).hex().encode()


def agent(upstream: str, peer: str) -> str:
    """Return the name of the key that signs a server's samples."""
    return f"agent {upstream}/{peer}"


def signers(name: str) -> tuple[str, ...]:
    """Return the names of the keys that may sign messages of the owner of the key `name`."""
    return (name, AGENTS) if name.startswith("agent ") else (name,)


def lb(name: str) -> str:
    """Return the name of the key that signs a load balancer's traffic reports."""
    return f"lb {name}"


def of_load_balancer(shared: bytes, name: str) -> str:
    """Return the key of a load balancer: the key of tables and the key of its reports, joined."""
    return f"lb.{derive(shared, TABLES).decode()}.{derive(shared, lb(name)).decode()}"


def load_balancer_keys(key: bytes) -> LoadBalancerKeys:
    """Return the keys in a load balancer's key: those of `of_load_balancer`, or the shared key itself.

    Raises ValueError for a truncated one of the first kind.
    """
    own = _OF_LOAD_BALANCER.fullmatch(key)
    if own is not None:
        return LoadBalancerKeys(tables=(own[1],), reports=own[2])
    if key.startswith(b"lb."):
        raise ValueError("a load balancer's key is lb., 64 hex digits, a dot and 64 more: copy it whole")
    return LoadBalancerKeys(tables=(key, derive(key, TABLES)), reports=key)


def token(shared: bytes, upstream: str, peer: str) -> str:
    """Return a server's token for the API; the server's name is part of it."""
    return f"{upstream}/{peer}/{derive(shared, f'token {upstream}/{peer}').decode()}"
