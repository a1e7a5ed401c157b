"""A route without a rule, or without the guard, stops the controller at its start."""

import re
from collections.abc import Awaitable, Callable

import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect
from steelyard_controller.api import auth, guarded_route
from steelyard_controller.api.app import create
from steelyard_controller.api.guarded_route import GuardedRoute

from .serving import READ, bearer, service_of, serving


def function() -> Callable[[], Awaitable[None]]:
    """Return a route's function without a rule."""

    async def nothing() -> None:
        """Answer nothing."""

    return nothing


def test_a_route_without_a_rule_cannot_be_made() -> None:
    with pytest.raises(TypeError, match=r"nothing has no rule: mark it with auth\.needs"):
        APIRouter(route_class=GuardedRoute).get("/x")(function())


def test_a_route_that_changes_something_names_its_upstream() -> None:
    endpoint = auth.needs("drain")(function())
    APIRouter(route_class=GuardedRoute).put("/v2/{upstream}/x")(endpoint)
    with pytest.raises(TypeError, match=r"/v2/{name}/x changes something: name an {upstream}"):
        APIRouter(route_class=GuardedRoute).put("/v2/{name}/x")(endpoint)


def test_a_stranger_does_not_learn_which_paths_and_methods_there_are() -> None:
    with serving(tokens={"read": [READ]}) as api:
        for method, path in (("GET", "/nowhere"), ("GET", "/v1/upstreams/web/dry-run"), ("OPTIONS", "/")):
            assert api.request(method, path).status_code in (401, 403)
        assert api.get("/nowhere", headers=bearer(READ)).status_code == 404
        answer = api.get("/v1/upstreams/web/dry-run", headers=bearer(READ))
        assert (answer.status_code, answer.headers["allow"]) == (405, "PUT")


def test_each_route_is_built_once() -> None:
    app = create(service_of())
    assert [each for each in app.routes if not isinstance(each, GuardedRoute)] == []


def test_a_route_without_a_guard_cannot_be_installed() -> None:
    app = create(service_of())
    app.get("/unguarded")(auth.needs("declare")(function()))
    with pytest.raises(TypeError, match=r"/unguarded.* is not guarded"):
        guarded_route.rules(app.routes)


def test_only_reading_or_public_routes_are_gets() -> None:
    for (template, method), rule in guarded_route.rules(create(service_of()).routes).items():
        assert (rule.scope in (None, "read")) == (method == "GET"), template
        assert rule.scope is not None or not template.startswith("/v1")


def test_a_websocket_is_refused() -> None:
    with serving(tokens={"read": [READ]}) as api:
        for path in ("/v1/events", "/v1/audit", "/v1/upstreams/web", "/"):
            with (
                pytest.raises((WebSocketDisconnect, WebSocketDenialResponse)),
                api.websocket_connect(path, headers=bearer(READ)),
            ):
                pass


@pytest.mark.parametrize("path", ["/v1/audit%0A", "/%00", "/v1/upstreams/web%C2%85", "/healthz%E2%80%A8"])
def test_a_path_with_a_control_character_is_400_before_anything_else(path: str) -> None:
    with serving(tokens={"read": [READ]}) as api:
        answer = TestClient(api.app, base_url="http://127.0.0.1:8081").get(path)
    assert answer.status_code == 400
    assert re.search(r"the path .*\\[nxu].* has a character that cannot be printed", answer.json()["detail"])
