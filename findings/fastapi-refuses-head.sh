#!/usr/bin/env bash
# FastAPI answers 405 to HEAD on a GET route; Starlette, on which it is built, answers 200.
#
# Versions:  fastapi 0.165.0, starlette 1.10.0, httpx 0.28.1 (PyPI)
# Expected:  "All general-purpose servers MUST support the methods GET and HEAD" (RFC 9110, 9.1). Starlette adds HEAD to
#            each route for GET, and FastAPI "is actually a sub-class of Starlette" (its documentation).
# Seen:      `@app.get` takes GET alone, and HEAD is a 405 with `Allow: GET`. A health check by HEAD (HAProxy's
#            `http-check send meth HEAD`, wget --spider) takes the server out.
# Steelyard: the controller answers HEAD as GET without the body (HeadAsGet in api/middleware.py).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-compile \
  --target "$folder/packages" fastapi==0.165.0 starlette==1.10.0 pydantic==2.14.3 httpx==0.28.1 2>/dev/null
PYTHONPATH="$folder/packages" python3 -s - <<'PYTHON'
import asyncio
from importlib.metadata import version

import httpx
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def health(request: Request) -> PlainTextResponse:
    return PlainTextResponse("well")


built = FastAPI()
built.get("/health")(health)
plain = Starlette(routes=[Route("/health", health)])


async def head(application) -> tuple[int, str | None]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost") as client:
        answer = await client.head("/health")
        return answer.status_code, answer.headers.get("allow")


answers = {"FastAPI": asyncio.run(head(built)), "Starlette": asyncio.run(head(plain))}
print(f"fastapi {version('fastapi')}, starlette {version('starlette')}: status and Allow of HEAD: {answers}")
assert answers == {"FastAPI": (405, "GET"), "Starlette": (200, None)}
PYTHON
