"""The OpenAPI description, complete enough to generate a client from it.

Pure but for the framework. FastAPI does not see some parts, and they are added. They are the models of
request bodies (which `request_body` reads), the problem documents and the tokens.
So are bounds in code only: the names of the laws, the form of an address.
"""

import re
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from steelyard_controller import laws
from steelyard_controller.api import models, problems
from steelyard_controller.api.auth import AUDIT
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

_OPEN = {"/healthz", "/readyz"}

# The form of an address; the parser's messages are more precise.
_ADDRESS = r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\.?):[1-9][0-9]{0,4}$"


def install(app: FastAPI, access: Access) -> None:
    """Serve the description at /openapi.json; `access` decides which requests need a token here."""
    original = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = original()
            _complete(document, access)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def allowed(app: FastAPI, path: str) -> list[str]:
    """Return a path's methods, sorted; an empty list for an unknown path."""
    for template, operations in app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", template), path):
            methods = [name.upper() for name in operations if name != "parameters"]
            return sorted([*methods, "HEAD"] if "GET" in methods else methods)
    return []


def _complete(document: dict[str, Any], access: Access) -> None:
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
            is_free = method == "get" and path != AUDIT and not access.has("read")
            optional: list[dict[str, Any]] = [{}] if is_free else []
            operation["security"] = [] if path in _OPEN else [{"token": []}, *optional]
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
