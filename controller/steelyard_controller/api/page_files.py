"""Serves the page and /docs: static files built by `scripts/page`, kept in memory.

The files of one build have URLs below /page/<digest of all of them>/, so that a
browser may cache them for ever and never mixes those of two versions.
"""

import asyncio
import functools
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response

from steelyard_controller.api import auth, etags
from steelyard_controller.api.guarded_route import guarded_router
from steelyard_controller.api.problems import ProblemError

STATIC = Path(__file__).parent / "static"

NOT_BUILT = (
    "The page was not built: run `scripts/page`, then start the controller again. The API is at /v1.\n"
)

# The placeholder in the HTML for the path with the digest.
DIGEST_PLACEHOLDER = "/page/@/"

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

# A year means "for ever", which Cache-Control cannot express.
FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file as it is sent."""

    media_type: str
    content: bytes
    tag: str


def routes(static: Path = STATIC) -> APIRouter:
    """Return the routes of the page, its files and /docs, from the folder `static`.

    They hold no secrets, so everybody may have them.
    """
    router = guarded_router()
    paths = sorted(static.iterdir()) if static.is_dir() else []
    files = {path.name: _file(path.name, path.read_bytes()) for path in paths if path.suffix in MEDIA_TYPES}
    version = _digest("".join(f"{name} {file.tag}\n" for name, file in sorted(files.items())).encode())
    pages = {
        name: _file(name, file.content.decode().replace(DIGEST_PLACEHOLDER, f"/page/{version}/").encode())
        for name, file in files.items()
        if name.endswith(".html")
    }

    @router.get("/", include_in_schema=False)
    @auth.open_to_all
    async def get_page(request: Request) -> Response:
        return await _page(pages, "index.html", request)

    @router.get("/docs", include_in_schema=False)
    @auth.open_to_all
    async def get_docs(request: Request) -> Response:
        answer = await _page(pages, "docs.html", request)
        # Swagger UI writes style attributes; scripts stay this controller's own.
        answer.headers["Content-Security-Policy"] = (
            "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return answer

    @router.get("/page/{build}/{name}", include_in_schema=False)
    @auth.open_to_all
    async def get_file(build: str, name: str, request: Request) -> Response:
        file = files.get(name)
        if file is None or name in pages:
            raise ProblemError(404, f"the page has no file {name[:100]}: load the page again")
        # An open page of another version gets these files, and must not cache them as its own.
        return await _answer(file, request, FOR_EVER if build == version else "no-cache")

    return router


async def _page(pages: Mapping[str, File], name: str, request: Request) -> Response:
    if name not in pages:
        return Response(NOT_BUILT, status_code=503, media_type="text/plain")
    return await _answer(pages[name], request, "no-cache")


async def _answer(file: File, request: Request, caching: str) -> Response:
    headers = {"ETag": f'W/"{file.tag}"', "Cache-Control": caching, "Vary": "Accept-Encoding"}
    if etags.matches(request.headers.get("if-none-match"), f'"{file.tag}"', weak=True):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        # The largest file takes 50 ms of CPU time, and must not delay a tick.
        packed = await asyncio.to_thread(_compressed, file.content)
        return Response(packed, media_type=file.media_type, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def _file(name: str, content: bytes) -> File:
    return File(
        media_type=MEDIA_TYPES[Path(name).suffix],
        content=content,
        tag=_digest(content),
    )


# Compressed at the first request: at the start, it would take a third of the start's time after the imports.
@functools.cache
def _compressed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
