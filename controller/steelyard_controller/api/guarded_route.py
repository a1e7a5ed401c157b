"""Authorization at the route: the route that answers a request decides whether its sender may have it.

The router matches the path once. Its match names the rule (`auth.needs`) and, by the path's parameters, the
upstream and the server. So a spelling of a path that the router takes for another path is judged as that one.
A route without a rule cannot be made, and a route of another class cannot be installed.

Order: the grant, the body (`body_limit.py`), the leader (`forward_to_leader.py`), the route's function.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic.alias_generators import to_camel
from starlette.routing import BaseRoute
from steelyard_protocol import wire

from steelyard_controller.api import auth, middleware
from steelyard_controller.api.auth import RequestParts, Rule
from steelyard_controller.api.body_limit import BodyLimit
from steelyard_controller.api.forward_to_leader import ForwardToLeader
from steelyard_controller.api.tokens import Access

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Guard:
    """Decides on each request for its route; one for all routes of an application.

    `access` returns the present tokens.
    """

    def __init__(self, *, access: Callable[[], Access], bodies: BodyLimit, leader: ForwardToLeader) -> None:
        self._access = access
        self._bodies = bodies
        self._leader = leader

    async def answer(self, request: Request, rule: Rule, handler: Handler) -> Response:
        """Return the answer of a route's handler, or the leader's; raise a problem if there is none."""
        self._decide(request, rule, request.path_params)
        whole = await self._bodies.read(request)
        # A name such as `..` would change the leader's path; the route's own function refuses it.
        are_names = all(wire.is_name(each) for each in request.path_params.values())
        if not rule.is_local and are_names and self._leader.is_needed:
            return self._leader.answer(whole, is_stream=rule.is_stream)
        return await handler(whole)

    def refuse_strangers(self, request: Request) -> None:
        """Raise a 401 or 403 problem if the sender of a request without a route must not learn that."""
        self._decide(request, auth.rule_without_route(request.method), {})

    def _decide(self, request: Request, rule: Rule, names: Mapping[str, str]) -> None:
        asked = RequestParts(
            method=middleware.method(request.scope),
            path=request.scope["path"],
            headers=request.headers,
            rule=rule,
            upstream=names.get("upstream"),
            peer=names.get("peer"),
        )
        request.scope[middleware.GRANT] = auth.grant_for(self._access(), asked)


class GuardedRoute(APIRoute):
    """A route that answers only requests that its rule allows; `app.state.guard` decides."""

    def get_route_handler(self) -> Handler:
        """Return the handler, behind the guard; raise TypeError if the function has no rule that fits."""
        handler, rule = super().get_route_handler(), auth.rule_of(self.endpoint)
        # Otherwise a token that may change some upstreams could use it for all of them.
        if rule.scope not in (None, "read") and "upstream" not in self.param_convertors:
            raise TypeError(f"{self.path_format} changes something: name an {{upstream}} in its path")

        async def guarded(request: Request) -> Response:
            guard: Guard = request.app.state.guard
            return await guard.answer(request, rule, handler)

        return guarded


def guarded_router(*tags: str) -> APIRouter:
    """Return a router of guarded routes. The id of `list_peers` is listPeers, as in a generated client."""
    return APIRouter(
        tags=[*tags],
        route_class=GuardedRoute,
        generate_unique_id_function=lambda route: to_camel(route.name),
    )


def rules(routes: Sequence[BaseRoute]) -> dict[tuple[str, str], Rule]:
    """Return the rule of each route, by its template and method; raise TypeError for an unguarded route."""
    found: dict[tuple[str, str], Rule] = {}
    for each in iter_route_contexts(routes):
        route = each.original_route
        if not isinstance(route, GuardedRoute):
            raise TypeError(f"{route!r} is not guarded: add it to a guarded_router")
        for method in route.methods or ():
            found[route.path_format, method] = auth.rule_of(route.endpoint)
    return found


def install(app: FastAPI, guard: Guard) -> None:
    """Set the guard of the application's routes; raise TypeError if one is not guarded."""
    rules(app.routes)
    app.state.guard = guard
