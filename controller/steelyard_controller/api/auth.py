"""Authorization: which token a request needs, and what the one that it has may do.

Pure: a decision on the parts of a request. A change always needs a token; where
no admin token is configured, the controller makes one (`generated_token.py`).
Where a request comes from proves nothing: a reverse proxy on this machine
makes everybody's requests its own, and a browser here may show any site's page
(cross-site request forgery, DNS rebinding). Neither knows the token.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard_protocol import wire

from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.tokens import Access, Role, weaker

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json"})
"""Read by everybody: the page and its files know no secrets, and a probe has no token."""

OPEN_PREFIX = "/page/"

ROLE_HEADER = "steelyard-role"
"""Set by a standby that forwards: the request may do no more than this role. It never adds a right."""

_READS = ("GET", "HEAD")
_NAME = wire.NAME.pattern
_REGISTRATION = re.compile(f"/v1/upstreams/{_NAME}/peers/{_NAME}")

_ADVICE = "send one as `Authorization: Bearer TOKEN`"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestParts:
    """The parts of a request that authorization looks at; header names are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]


def is_open(asked: RequestParts) -> bool:
    """Tell whether a request needs no token whatever is configured."""
    return asked.method in _READS and (asked.path in OPEN_PATHS or asked.path.startswith(OPEN_PREFIX))


def role_for(access: Access, asked: RequestParts) -> Role:
    """Return the role of a request; raise a 401 or 403 problem where that role may not do it."""
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


def _needed(asked: RequestParts) -> Role:
    if asked.method in _READS:
        return "read"
    return "agent" if asked.method in ("PUT", "DELETE") and _REGISTRATION.fullmatch(asked.path) else "admin"


def _role(access: Access, asked: RequestParts, needed: Role) -> Role:
    given = asked.headers.get("authorization")
    if given is not None:
        scheme, _, token = given.partition(" ")
        token = token.strip()
        role = access.role_of(token) if scheme.lower() == "bearer" else None
        if role is not None:
            _refuse_others(access.server_of(token), asked, needed)
            return role
        # Where no token is configured, who sends one may read as those do who send none.
        if access.digests or needed != "read":
            raise _unauthorized(f"the token is none of this controller's: {_advice(access)}", wrong=True)
    if needed == "read":
        if access.has("read"):
            raise _unauthorized(f"reading needs a token: {_ADVICE}")
        return "read"
    if access.generated is None and not access.has("admin"):
        raise ProblemError(
            403,
            "this controller has no admin token and could not make one (its log says why), so nobody may "
            "change anything: start it with --admin-token-file (or STEELYARD_ADMIN_TOKEN)",
        )
    raise _unauthorized(f"a change needs a token: {_advice(access)}")


def _refuse_others(own: tuple[str, str] | None, asked: RequestParts, needed: Role) -> None:
    if own is None or needed == "read":
        return
    upstream, peer = own
    if asked.path != f"/v1/upstreams/{upstream}/peers/{peer}":
        raise ProblemError(
            403, f"this token may register and remove {peer} of {upstream} alone, not {asked.path[:200]}"
        )


def _advice(access: Access) -> str:
    if access.generated is None:
        return _ADVICE
    return f"{_ADVICE}; this controller made one, and `steelyard page` on its machine prints the link with it"


def _unauthorized(detail: str, *, wrong: bool = False) -> ProblemError:
    challenge = 'Bearer realm="steelyard"' + (', error="invalid_token"' if wrong else "")
    return ProblemError(401, detail, headers={"WWW-Authenticate": challenge})
