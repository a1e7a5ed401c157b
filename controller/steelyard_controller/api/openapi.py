"""The OpenAPI description, complete enough to generate a client from it.

Pure but for the framework. FastAPI does not see some parts, and they are added. They are the models of
request bodies (which `request_body` reads), the problem documents and the tokens.
So are bounds in code only: the names of the laws, the form of an address.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from steelyard_controller import laws
from steelyard_controller.api import auth, guarded_route, models, problems
from steelyard_controller.api.auth import Rule
from steelyard_controller.api.guarded_route import guarded_router
from steelyard_controller.api.tokens import Access

TITLE = "Steelyard"

DESCRIPTION = """\
The controller's REST API. Errors are RFC 9457 problem documents; docs/reference/api.md is a tour with curl.

A path that is not here is a 404, a method that is not here a 405 with `Allow`. Each GET has a HEAD. A standby
forwards requests to the leader if only the leader can answer them.
"""

TAGS = [
    {"name": "upstreams", "description": "Declarations, decisions and published tables."},
    {"name": "peers", "description": "The servers: declared, drained, pinned, explained."},
    {"name": "service", "description": "The controller itself."},
]

SECURITY = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of --tokens-file, --admin-token-file, --agent-token-file or "
        "--read-token-file. Without a configured admin token the controller makes one. Without a read token "
        "everybody may read.",
    }
}

# The form of an address; the parser's messages are more precise.
_ADDRESS = r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\.?):[1-9][0-9]{0,4}$"


def install(app: FastAPI, access: Access) -> None:
    """Serve the description at /openapi.json; `access` decides which requests need a token here."""
    original = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = original()
            _complete(document, access, guarded_route.rules(app.routes))
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def routes() -> APIRouter:
    """Return the route of the description."""
    router = guarded_router()

    @router.get("/openapi.json", include_in_schema=False)
    @auth.open_to_all
    async def get_description(request: Request) -> Response:
        return JSONResponse(request.app.openapi())

    return router


def allowed(app: FastAPI, template: str) -> list[str]:
    """Return the methods of a path's template, sorted; an empty list for one that is not described."""
    methods = [name.upper() for name in app.openapi()["paths"].get(template, {}) if name != "parameters"]
    return sorted([*methods, "HEAD"] if "GET" in methods else methods)


def _complete(document: dict[str, Any], access: Access, rules: Mapping[tuple[str, str], Rule]) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    wanted: list[type[BaseModel]] = [*models.REQUESTS, problems.Problem]
    _, definitions = models_json_schema(
        [(model, "validation") for model in wanted], ref_template="#/components/schemas/{model}"
    )
    for name, schema in definitions["$defs"].items():
        schemas.setdefault(name, schema)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    _bound(schemas)
    document["components"]["securitySchemes"] = SECURITY
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            rule = rules[path, method.upper()]
            is_free = rule.scope == "read" and not rule.always_token and not access.has("read")
            optional: list[dict[str, Any]] = [{}] if is_free else []
            operation["security"] = [] if rule.scope is None else [{"token": []}, *optional]
            if "{" in path:
                # `middleware.Problems` refuses unprintable characters before there is a route.
                operation["responses"] |= {"400": problems.responses(400)[400]}
            for parameter in operation.get("parameters", []):
                _never_null(parameter)
            operation["responses"].get("422", {}).get("content", {}).pop("application/json", None)


def _never_null(parameter: dict[str, Any]) -> None:
    # FastAPI's form of "may be left out"; a header or a query cannot be null.
    types = [each for each in parameter["schema"].get("anyOf", []) if each != {"type": "null"}]
    if types:
        parameter["schema"] = types[0] | {"title": parameter["schema"].get("title", parameter["name"])}


def _bound(schemas: dict[str, Any]) -> None:
    for name in ("Peer", "PeerDocument", "PeerPatch"):
        schemas[name]["properties"]["address"] |= {"pattern": _ADDRESS, "maxLength": 260}
        schemas[name]["properties"]["address"].pop("default", None)
    for name in ("Upstream", "Blend"):
        schemas[name]["properties"]["law"]["enum"] = list(laws.NAMES)
    schemas["Upstream"]["properties"]["shadows"]["propertyNames"] = {"enum": list(laws.NAMES)}
