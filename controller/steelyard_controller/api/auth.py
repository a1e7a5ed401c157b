"""Authorization: the scope that a request needs, and the grant of its sender.

Pure: a decision on the parts of a request. A change always needs a token; without a
configured admin token, the controller makes one (`generated_token.py`).
A request's origin proves nothing: a reverse proxy on this machine
makes everybody's requests its own, and a browser here may show any site's page
(cross-site request forgery, DNS rebinding). Neither knows the token.

A login proxy (oauth2-proxy) names a person in the header with its
own token, `Authorization: Basic` of name and token. So no header counts
that any client of this port could write, and a standby passes it on as it is.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard_protocol import wire

from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.tokens import ALLOWS, ANYBODY, Access, Grant, Scope

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json"})
"""Readable without a token: the page and its files hold no secrets, and a probe has no token."""

OPEN_PREFIX = "/page/"

AUDIT = "/v1/audit"
"""Readable with a token alone: it has the names of people."""

ROLE_HEADER = "steelyard-role"
"""Set by a forwarding standby: the request may do no more than this. It never adds a right."""

_READS = ("GET", "HEAD")
_NAME = wire.NAME.pattern
_SERVER = re.compile(f"/v1/upstreams/{_NAME}/peers/{_NAME}")
_UPSTREAM = re.compile(f"/v1/upstreams/({_NAME})(/.*)?")

_ADVICE = "send one as `Authorization: Bearer TOKEN`"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestParts:
    """The parts of a request for authorization; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


def is_open(asked: RequestParts) -> bool:
    """Return whether a request needs no token in any configuration."""
    return asked.method in _READS and (asked.path in OPEN_PATHS or asked.path.startswith(OPEN_PREFIX))


def grant_for(access: Access, asked: RequestParts) -> Grant:
    """Return the grant of a request; raise a 401 or 403 problem if the grant does not allow it."""
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
    """Return the `ROLE_HEADER` of a forwarded request with this grant."""
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
        # Without configured tokens, a sender with a token may read as others do.
        if access.configured or not anybody:
            raise _unauthorized(f"this controller does not know the token: {_advice(access)}", wrong=True)
    if anybody:
        return ANYBODY
    if needed == "read":
        raise _unauthorized(f"reading this needs a token: {_advice(access)}")
    if access.generated is None and not any(each.grant.scopes - {"read"} for each in access.configured):
        raise ProblemError(
            403,
            "changes are disabled: this controller has no admin token and could not make one (see its log): "
            "start it with --admin-token-file (or STEELYARD_ADMIN_TOKEN)",
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
    # A browser sends the proxy's cookie with every site's requests.
    if grant.proxy is not None and asked.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise ProblemError(403, f"a page of another site sent this request, not {grant.name}: use this page")


def _advice(access: Access) -> str:
    if access.generated is None:
        return _ADVICE
    return f"{_ADVICE}; this controller made one, and `steelyard page` on its machine prints the link with it"


def _unauthorized(detail: str, *, wrong: bool = False) -> ProblemError:
    challenge = 'Bearer realm="steelyard"' + (', error="invalid_token"' if wrong else "")
    return ProblemError(401, detail, headers={"WWW-Authenticate": challenge})
