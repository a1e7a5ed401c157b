"""Authorization: what a request needs, and whose it is who may do that.

Pure: a decision on the parts of a request. A change always needs a token; where
no admin token is configured, the controller makes one (`generated_token.py`).
Where a request comes from proves nothing: a reverse proxy on this machine
makes everybody's requests its own, and a browser here may show any site's page
(cross-site request forgery, DNS rebinding). Neither knows the token.

A login proxy (oauth2-proxy) says who a person is in the header that carries its
own token, `Authorization: Basic` of name and token: so no header is believed
that whoever reaches this port could write, and a standby passes it on as it is.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard_protocol import wire

from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.tokens import ALLOWS, ANYBODY, Access, Grant, Scope

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json"})
"""Read by everybody: the page and its files know no secrets, and a probe has no token."""

OPEN_PREFIX = "/page/"

AUDIT = "/v1/audit"
"""Read with a token alone: it has the names of people."""

ROLE_HEADER = "steelyard-role"
"""Set by a standby that forwards: the request may do no more than this. It never adds a right."""

_READS = ("GET", "HEAD")
_NAME = wire.NAME.pattern
_SERVER = re.compile(f"/v1/upstreams/{_NAME}/peers/{_NAME}")
_UPSTREAM = re.compile(f"/v1/upstreams/({_NAME})(/.*)?")

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


def grant_for(access: Access, asked: RequestParts) -> Grant:
    """Return the grant of a request; raise a 401 or 403 problem where it does not allow that."""
    if is_open(asked):
        return ANYBODY
    needed = _needed(asked)
    grant = _grant(access, asked, needed)
    named = asked.headers.get(ROLE_HEADER, "").split(",")
    if cap := [scope for scope in ALLOWS if scope in named]:
        grant = grant.within(cap)
    if not grant.may(needed):
        raise refusal(grant, needed, f"{asked.method} {asked.path[:200]}")
    if needed != "read":
        _refuse_others(grant, asked, needed)
    return grant


def header_of(grant: Grant) -> str:
    """Return the `ROLE_HEADER` with which a request of this grant is forwarded."""
    return ",".join(sorted(grant.scopes)) or "read"


def refusal(grant: Grant, needed: Scope, what: str) -> ProblemError:
    """Return the 403 problem of a request that lacks a scope."""
    has = ", ".join(sorted(grant.scopes)) or "read"
    return ProblemError(403, f"{what} needs a token of the scope {needed}; {grant.name}'s has {has}")


def _needed(asked: RequestParts) -> Scope:
    if asked.method in _READS:
        return "read"
    of_server = _SERVER.fullmatch(asked.path) is not None
    if of_server and asked.method == "PATCH":
        return "drain"
    return "agent" if of_server and asked.method in ("PUT", "DELETE") else "declare"


def _grant(access: Access, asked: RequestParts, needed: Scope) -> Grant:
    anybody = needed == "read" and not access.has("read") and asked.path != AUDIT
    given = asked.headers.get("authorization")
    if given is not None:
        grant = _of_header(access, given)
        if grant is not None:
            return grant
        # Where no token is configured, who sends one may read as those do who send none.
        if access.configured or not anybody:
            raise _unauthorized(f"the token is none of this controller's: {_advice(access)}", wrong=True)
    if anybody:
        return ANYBODY
    if needed == "read":
        raise _unauthorized(f"reading this needs a token: {_advice(access)}")
    if access.generated is None and not any(each.grant.scopes - {"read"} for each in access.configured):
        raise ProblemError(
            403,
            "this controller has no admin token and could not make one (its log says why), so nobody may "
            "change anything: start it with --admin-token-file (or STEELYARD_ADMIN_TOKEN)",
        )
    raise _unauthorized(f"a change needs a token: {_advice(access)}")


def _of_header(access: Access, given: str) -> Grant | None:
    scheme, _, secret = given.partition(" ")
    if scheme.lower() == "bearer":
        return access.grant_of(secret.strip())
    if scheme.lower() != "basic":
        return None
    try:
        name, _, token = base64.b64decode(secret.strip(), validate=True).decode().rpartition(":")
    except ValueError:
        return None
    return access.grant_of(token, name)


def _refuse_others(grant: Grant, asked: RequestParts, needed: Scope) -> None:
    upstream = _UPSTREAM.fullmatch(asked.path)
    if grant.server is not None and asked.path != "/v1/upstreams/{}/peers/{}".format(*grant.server):
        raise ProblemError(
            403,
            "this token may register and remove {1} of {0} alone, not ".format(*grant.server)
            + asked.path[:200],
        )
    if upstream is not None and not grant.covers(upstream[1]):
        raise ProblemError(
            403,
            f"{asked.method} {asked.path[:200]} needs a token of the scope {needed} for {upstream[1]}; "
            f"{grant.name}'s has it for {', '.join(grant.upstreams)} alone",
        )
    # The proxy goes by a cookie, which a browser sends whichever site's page asks.
    if grant.proxy is not None and asked.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise ProblemError(403, f"a page of another site asks for this, not {grant.name}: use this page")


def _advice(access: Access) -> str:
    if access.generated is None:
        return _ADVICE
    return f"{_ADVICE}; this controller made one, and `steelyard page` on its machine prints the link with it"


def _unauthorized(detail: str, *, wrong: bool = False) -> ProblemError:
    challenge = 'Bearer realm="steelyard"' + (', error="invalid_token"' if wrong else "")
    return ProblemError(401, detail, headers={"WWW-Authenticate": challenge})
