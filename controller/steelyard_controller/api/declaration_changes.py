"""Change a declaration through the service, and turn each way to fail into a problem."""

from collections.abc import Callable
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel, ValidationError

from steelyard_controller.api import middleware, request_body, validation_errors
from steelyard_controller.api.etags import expected_revision, tag
from steelyard_controller.api.problems import Mistake, ProblemError, invalid, retry_later
from steelyard_controller.declarations.declaration import Declaration, Unknown
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.service import Conflict, NotLeading, NotStored, Service


async def change(
    service: Service,
    request: Request,
    upstream: str,
    edit: Callable[[Upstream | None], Upstream],
    *,
    if_match: str | None = None,
    if_none_match: str | None = None,
    dry_run: bool = False,
) -> Declaration:
    """Change an upstream and return its new declaration; raise the problem with the reason if it fails."""
    declared = await _apply(service, request, upstream, edit, if_match, if_none_match, dry_run)
    if declared is None:
        raise RuntimeError("an edit that returns an upstream does not delete it")
    return declared


async def remove(service: Service, request: Request, upstream: str, *, if_match: str | None) -> None:
    """Delete an upstream; raise the problem with the reason if it still exists."""
    try:
        await _apply(service, request, upstream, lambda _: None, if_match, None)
    except ProblemError as error:
        # A DELETE has no body to blame: it conflicts with the state of the upstream.
        raise ProblemError(409, error.errors[0].message) if error.status_code == 422 else error from None


def answer(document: BaseModel, declared: Declaration, *, created: bool) -> Response:
    """Return the response to a change: the document, with the new revision as its ETag."""
    return Response(
        document.model_dump_json(),
        status_code=201 if created else 200,
        media_type=request_body.JSON,
        headers={"ETag": tag(declared.revision)},
    )


def openapi_body(model: type[BaseModel], example: dict[str, Any], *types: str) -> dict[str, Any]:
    """Return OpenAPI's description of a request body."""
    content = {
        "schema": {"$ref": f"#/components/schemas/{model.__name__}"},
        "examples": {"plain": {"value": example}},
    }
    return {
        "requestBody": {"required": True, "content": dict.fromkeys(types or (request_body.JSON,), content)}
    }


async def _apply(
    service: Service,
    request: Request,
    upstream: str,
    edit: Callable[[Upstream | None], Upstream | None],
    if_match: str | None,
    if_none_match: str | None,
    dry_run: bool = False,
) -> Declaration | None:
    cycle = service.views.get(upstream)
    before = None if cycle is None else cycle.declaration
    revision = expected_revision(if_match, if_none_match, before, upstream=upstream)
    by = middleware.author(request.scope)
    try:
        return await service.change(upstream, edit, revision=revision, by=by, dry_run=dry_run)
    except NotLeading:
        raise retry_later(
            "this controller does not lead any more, and nothing has changed: send it again"
        ) from None
    except NotStored as error:
        raise retry_later(f"nothing has changed: {error}") from None
    except Conflict as error:
        raise ProblemError(412, str(error)) from None
    except Unknown as error:
        raise ProblemError(404, str(error)) from None
    except ValidationError as error:
        raise invalid(validation_errors.of_document(error.errors(include_url=False))) from None
    except ValueError as error:
        raise invalid([Mistake(field=validation_errors.WHOLE_DOCUMENT, message=str(error))]) from None
