"""The parts of a request for authorization, with the rule and the names of the route that answers it."""

import functools
from collections.abc import Mapping
from typing import Any

from starlette.routing import compile_path
from steelyard_controller.api import auth, guarded_route
from steelyard_controller.api.app import create
from steelyard_controller.api.auth import RequestParts, Rule

from .serving import service_of


@functools.cache
def _rules() -> Mapping[tuple[str, str], Rule]:
    return guarded_route.rules(create(service_of()).routes)


def asked(method: str, path: str, headers: Mapping[str, str]) -> RequestParts:
    """Return the parts of a request for a path that is written plainly."""
    rule, names = auth.rule_without_route(method), dict[str, Any]()
    for (template, of_method), each in _rules().items():
        found = compile_path(template)[0].fullmatch(path)
        if found and of_method == method:
            rule, names = each, found.groupdict()
    return RequestParts(
        method=method,
        path=path,
        headers=headers,
        rule=rule,
        upstream=names.get("upstream"),
        peer=names.get("peer"),
    )
