"""Errors as RFC 9457 problem documents. Pure but for the framework's response type."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """An RFC 9457 problem document."""

    type: str = "about:blank"
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["no upstream is called shop; there are: web"])


def answer(status: int, title: str, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a problem document as a response."""
    body: dict[str, Any] = Problem(title=title, status=status, detail=detail).model_dump()
    return JSONResponse(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def install(app: FastAPI) -> None:
    """Make every error of `app` a problem document."""

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> JSONResponse:
        titles = {404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
        headers = dict(error.headers) if error.headers else None
        return answer(error.status_code, titles.get(error.status_code, "Error"), str(error.detail), headers)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        detail = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        return answer(422, "Unprocessable Content", detail)
