#!/usr/bin/env bash
# uvicorn --limit-concurrency N serves N - 1 connections, and idle ones count: a limit of 1 refuses every request.
#
# Versions:  uvicorn 0.54.0, httptools 0.9.0, h11 0.16.0 (PyPI)
# Expected:  "Maximum number of concurrent connections or tasks to allow, before issuing HTTP 503 responses" (uvicorn's
#            settings). A limit of 3 allows three.
# Seen:      with 3, two clients that keep their connections get 200, and the third one gets 503, although no request is
#            in flight. With 1, the only client of an idle server gets 503. A request's own connection is counted before
#            it is compared (`>=`), by both HTTP implementations.
# Steelyard: does not use it. The controller counts connections by client (api/connection_limits.py).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
  --target "$folder/packages" uvicorn==0.54.0 httptools==0.9.0 h11==0.16.0 click==8.5.1
PYTHONPATH="$folder/packages" python3 -s - <<'PYTHON'
import http.client
import socket
import threading
import time

import uvicorn


async def application(scope, receive, send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


def statuses(implementation: str, limit: int) -> list[int]:
    """Return the answers to four clients, one after the other, that keep their connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            application, http=implementation, limit_concurrency=limit, log_level="error", lifespan="off"
        )
        server = uvicorn.Server(config)
        running = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        running.start()
        while not server.started:
            time.sleep(0.01)
        clients = [http.client.HTTPConnection(*listener.getsockname(), timeout=10) for _ in range(4)]
        answers = []
        for client in clients:
            client.request("GET", "/")
            answers.append(client.getresponse().status)
        for client in clients:
            client.close()
        server.should_exit = True
        running.join()
    return answers


for implementation in ("h11", "httptools"):
    seen = {limit: statuses(implementation, limit) for limit in (1, 2, 3)}
    print(f"uvicorn {uvicorn.__version__}, {implementation}, four idle clients by the limit: {seen}")
    assert seen == {limit: [200] * (limit - 1) + [503] * (5 - limit) for limit in (1, 2, 3)}
PYTHON
