"""Errors as RFC 9457 problem documents. Pure but for the framework's response type."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/problem+json"

# An answer quotes the client's text, but not megabytes of it.
LONGEST_DETAIL = 2000
MOST_ERRORS = 20

# RFC 9110's: those of Python's standard library differ from version to version.
TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}


class Mistake(BaseModel):
    """One mistake in a request."""

    field: str = Field(examples=["peers.1.address"])
    message: str = Field(examples=["'10.0.0.1' has no port: write it as 10.0.0.11:80"])


class Problem(BaseModel):
    """An RFC 9457 problem document."""

    type: str = "about:blank"
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["no upstream is called shop; there are: web"])
    errors: list[Mistake] | None = Field(default=None, description="mistakes of a 422, each with its field")


class ProblemError(HTTPException):
    """An error answered as a problem document; `more` are its extension members."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        errors: Sequence[Mistake] = (),
        more: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.errors = errors
        self.more = more or {}


def invalid(mistakes: Sequence[Mistake]) -> ProblemError:
    """Return a 422 with each wrong field."""
    detail = "; ".join(f"{mistake.field}: {mistake.message}" for mistake in mistakes[:MOST_ERRORS])
    return ProblemError(422, detail, errors=mistakes)


def retry_later(detail: str, *, after_s: int = 1) -> ProblemError:
    """Return a 503 with Retry-After: it cannot be done now, and probably can in `after_s` seconds."""
    return ProblemError(503, detail, headers={"Retry-After": str(after_s)})


def answer(error: HTTPException) -> Response:
    """Return an error as a response."""
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": _title(error.status_code),
        "status": error.status_code,
        "detail": _short(error.detail),
    }
    if isinstance(error, ProblemError):
        document |= error.more
        if error.errors:
            document["errors"] = [
                {"field": _short(each.field), "message": _short(each.message)}
                for each in error.errors[:MOST_ERRORS]
            ]
    return Response(
        # A quoted value may hold lone surrogates, which UTF-8 cannot encode.
        json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"),
        status_code=error.status_code,
        media_type=MEDIA_TYPE,
        headers=dict(error.headers) if error.headers else None,
    )


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return how an operation's errors are described in OpenAPI."""
    return {
        status: {
            "description": _title(status),
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


def _title(status: int) -> str:
    return TITLES.get(status) or HTTPStatus(status).phrase


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_DETAIL else f"{text[:LONGEST_DETAIL]}…"
