"""May this request be served? Tokens, the loopback rule, and what a browser must not be talked into.

Pure: a decision on the parts of a request. The rule for a controller without
an admin token is "from this machine alone", and a browser on this machine is
this machine: so a request without a token may write only under a name that
no stranger's DNS can own, and only where no other site's page sent it.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard_agent import wire

from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.tokens import Access, Role, weaker

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json"})
"""Read by everybody: the page and its files know no secrets, and a probe has no token."""

OPEN_PREFIX = "/page/"

ROLE_HEADER = "steelyard-role"
"""Set by a standby that forwards: the request may do no more than this. It never lends a right."""

_READS = ("GET", "HEAD")
_NAME = wire.NAME.pattern
_REGISTRATION = re.compile(f"/v1/upstreams/{_NAME}/peers/{_NAME}")

# Whoever came through a proxy did not come from this machine, whatever the socket says.
_PROXIED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

_ADVICE = "send one as `Authorization: Bearer TOKEN`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The parts of a request that matter here; header names are in small letters."""

    method: str
    path: str
    client: str | None
    headers: Mapping[str, str]


def is_open(asked: Asked) -> bool:
    """Tell whether a request needs no right at all."""
    return asked.method in _READS and (asked.path in OPEN_PATHS or asked.path.startswith(OPEN_PREFIX))


def role_for(access: Access, asked: Asked) -> Role:
    """Return what a request may do; raise a 401 or 403 problem where that is not enough for it."""
    if is_open(asked):
        return "read"
    needed = _needed(asked)
    role = _role(access, asked, needed)
    cap = asked.headers.get(ROLE_HEADER)
    if cap in ("read", "agent") and weaker(cap, role):  # type: ignore[arg-type]
        role = cap  # type: ignore[assignment]
    if weaker(role, needed):
        raise ProblemError(
            403,
            f"this token may only {_MAY[role]}: {asked.method} {asked.path[:200]} needs an {needed} token",
        )
    return role


_MAY: Mapping[Role, str] = {"read": "read", "agent": "read, and register servers", "admin": "do everything"}


def _needed(asked: Asked) -> Role:
    if asked.method in _READS:
        return "read"
    return "agent" if asked.method in ("PUT", "DELETE") and _REGISTRATION.fullmatch(asked.path) else "admin"


def _role(access: Access, asked: Asked, needed: Role) -> Role:
    given = asked.headers.get("authorization")
    if given is not None and access.digests:
        scheme, _, token = given.partition(" ")
        role = access.role_of(token.strip()) if scheme.lower() == "bearer" else None
        if role is None:
            raise _unauthorized(f"the token is none of this controller's: {_ADVICE}", wrong=True)
        return role
    if needed == "read":
        if access.has("read"):
            raise _unauthorized(f"reading needs a token: {_ADVICE}")
        return "read"
    if access.has("admin"):
        raise _unauthorized(f"a change needs a token: {_ADVICE}")
    _refuse_strangers(access, asked)
    return "admin"


def _refuse_strangers(access: Access, asked: Asked) -> None:
    if not is_loopback(asked.client) or any(name in asked.headers for name in _PROXIED):
        raise ProblemError(
            403,
            "without an admin token this controller takes changes from its own machine alone: start it with "
            "--admin-token-file (or STEELYARD_ADMIN_TOKEN) and send the token",
        )
    host = asked.headers.get("host", "")
    if not _is_own(host, access.hosts):
        raise ProblemError(
            403,
            "without a token a change is taken only under an IP address, localhost or the advertised name, "
            f"not under {host[:100] or 'no name'}: another site could own that name",
        )
    origin = asked.headers.get("origin")
    if (
        origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}")
    ) or (asked.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")):
        raise ProblemError(
            403, "another site's page sent this; without a token only the page of this controller may"
        )


def is_loopback(client: str | None) -> bool:
    """Tell whether an address is this machine's own; an IPv4 address may come in IPv6's clothes."""
    try:
        address = ipaddress.ip_address(client or "")
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _is_own(host: str, own: frozenset[str]) -> bool:
    name = re.sub(r":[0-9]{1,5}$", "", host).lower()
    if name == "localhost" or name in own:
        return True
    try:
        ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return True


def _unauthorized(detail: str, *, wrong: bool = False) -> ProblemError:
    challenge = 'Bearer realm="steelyard"' + (', error="invalid_token"' if wrong else "")
    return ProblemError(401, detail, headers={"WWW-Authenticate": challenge})
