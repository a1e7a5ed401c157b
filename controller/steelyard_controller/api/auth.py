"""Authorization: the rule of each route, and the grant of a request's sender.

Pure: a decision on the parts of a request. The route that answers a request names its rule, and the names in
the path are the route's own parameters. No text of a path is read here, so no spelling can mean one thing to
the router and another to this decision (`guarded_route.py`).
A change always needs a token; without a configured admin token, the controller makes one
(`generated_token.py`).
A request's origin proves nothing: a reverse proxy on this machine
makes everybody's requests its own, and a browser here may show any site's page
(cross-site request forgery, DNS rebinding). Neither knows the token.

A login proxy (oauth2-proxy) names a person in the header with its
own token, `Authorization: Basic` of name and token. So no header counts
that any client of this port could write, and a standby passes it on as it is.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.tokens import ALLOWS, ANYBODY, Access, Grant, Scope

ROLE_HEADER = "steelyard-role"
"""Set by a forwarding standby: the request may do no more than this. It never adds a right."""

_ADVICE = "send one as `Authorization: Bearer TOKEN`"


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The demand of a route on each request.

    scope          the scope that a request needs; None: everybody may send it
    always_token   it needs a token even if reading is free for everybody
    is_local       each controller answers it, so a standby does not forward it
    is_stream      its answer has no end
    """

    scope: Scope | None
    always_token: bool = False
    is_local: bool = False
    is_stream: bool = False


_RULE = "steelyard_rule"


def open_to_all(endpoint: Endpoint) -> Endpoint:
    """Mark a route's function: everybody may call it, and each controller answers it."""
    vars(endpoint)[_RULE] = Rule(scope=None, is_local=True)
    return endpoint


def needs(
    scope: Scope, *, always_token: bool = False, is_local: bool = False, is_stream: bool = False
) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator that marks a route's function with its rule (see `Rule`)."""

    def mark(endpoint: Endpoint) -> Endpoint:
        vars(endpoint)[_RULE] = Rule(
            scope=scope, always_token=always_token, is_local=is_local, is_stream=is_stream
        )
        return endpoint

    return mark


def rule_of(endpoint: Callable[..., Any]) -> Rule:
    """Return the rule of a route's function; raise TypeError if it has none."""
    rule = vars(endpoint).get(_RULE)
    if not isinstance(rule, Rule):
        raise TypeError(f"{endpoint.__qualname__} has no rule: mark it with auth.needs or auth.open_to_all")
    return rule


def rule_without_route(method: str) -> Rule:
    """Return the rule of a request that no route answers: its 404 or 405 tells a stranger no paths."""
    return Rule(scope="read" if method in ("GET", "HEAD") else "declare")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestParts:
    """The parts of a request for authorization; header names are in lower case.

    `upstream` and `peer` are the parameters of the route that answers it; `path` is for messages alone.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    rule: Rule
    upstream: str | None = None
    peer: str | None = None

    def __str__(self) -> str:
        return f"{self.method[:32]} {self.path[:200]}"


def grant_for(access: Access, asked: RequestParts) -> Grant:
    """Return the grant of a request; raise a 401 or 403 problem if the grant does not allow it."""
    needed = asked.rule.scope
    if needed is None:
        return ANYBODY
    grant = _grant(access, asked, needed)
    named = asked.headers.get(ROLE_HEADER, "").split(",")
    if cap := [scope for scope in ALLOWS if scope in named]:
        grant = grant.within(cap)
    if not grant.may(needed):
        raise refusal(grant, needed, str(asked))
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


def _grant(access: Access, asked: RequestParts, needed: Scope) -> Grant:
    anybody = needed == "read" and not access.has("read") and not asked.rule.always_token
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
    if grant.server is not None and (asked.upstream, asked.peer) != grant.server:
        raise ProblemError(
            403,
            f"this token may register and remove {grant.server[1]} of {grant.server[0]} alone, "
            f"not {asked.path[:200]}",
        )
    if asked.upstream is not None and not grant.covers(asked.upstream):
        raise ProblemError(
            403,
            f"{asked} needs a token of the scope {needed} for {asked.upstream[:64]}; "
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
