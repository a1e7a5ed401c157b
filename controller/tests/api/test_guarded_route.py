"""A route without a rule, or without the guard, stops the controller at its start."""

import re

import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect
from steelyard_controller.api import auth, guarded_route
from steelyard_controller.api.app import create
from steelyard_controller.api.guarded_route import GuardedRoute

from .serving import READ, bearer, service_of, serving


async def _nothing() -> None:
    """Answer nothing."""


def test_a_route_without_a_rule_cannot_be_made() -> None:
    with pytest.raises(TypeError, match=r"_nothing has no rule: mark it with auth\.needs"):
        APIRouter(route_class=GuardedRoute).get("/x")(_nothing)


def test_a_route_without_a_guard_cannot_be_installed() -> None:
    app = create(service_of())
    app.get("/unguarded")(auth.needs("declare")(_nothing))
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
