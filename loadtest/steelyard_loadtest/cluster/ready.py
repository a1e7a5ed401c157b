"""Whether each component of a cluster does its job, not merely whether it runs."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable

from steelyard_loadtest.cluster.plan import Cluster

# A local component answers within milliseconds; the wait is repeated by the caller.
TIMEOUT_S = 1.0


Check = Callable[[], str | None]


def checks(cluster: Cluster) -> dict[str, Check]:
    """Return, by component, a function that says what is still missing, or None when it is ready."""
    found: dict[str, Check] = {
        "memcached": lambda: _asks(cluster.memcached_port, b"version\r\n", b"VERSION"),
        "redis": lambda: _asks(cluster.redis_port, b"PING\r\n", b"+PONG"),
    }
    for server in cluster.servers:
        found[server.name] = lambda port=server.port: _answers(port, "/healthz")  # type: ignore[misc]
    found["controller"] = lambda: _answers(cluster.api_port, "/readyz")
    for server in cluster.servers:
        agent = server.name.replace("server", "agent")
        found[agent] = lambda peer=server.name: _samples(cluster.api_port, peer)  # type: ignore[misc]
    found["nginx"] = lambda: _weighs(cluster.lb_port)
    return found


def fetch(port: int, path: str) -> tuple[int, bytes]:
    """GET a path of this machine; return the status and the body. Raise OSError when nobody answers."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def _asks(port: int, question: bytes, answer: bytes) -> str | None:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
            connection.sendall(question)
            said = connection.recv(128)
    except OSError as error:
        return f"port {port}: {error}"
    return None if said.startswith(answer) else f"port {port} answers {said[:40]!r}"


def _answers(port: int, path: str) -> str | None:
    try:
        status, body = fetch(port, path)
    except OSError as error:
        return f"port {port}: {error}"
    return None if status == 200 else f"{path} answers {status} {body[:200].decode(errors='replace')}"


def _samples(api_port: int, peer: str) -> str | None:
    document = _json(api_port, "/v1/upstreams/web")
    peers = document.get("peers") if isinstance(document, dict) else None
    for row in peers if isinstance(peers, list) else []:
        if row["id"] == peer and row["utilization"] is not None:
            return None
    return f"the controller has no sample of {peer} yet"


def _weighs(lb_port: int) -> str | None:
    document = _json(lb_port, "/steelyard/status")
    if not isinstance(document, dict):
        return f"port {lb_port} gives no /steelyard/status"
    rung = document.get("upstreams", {}).get("web", {}).get("rung")
    return None if rung == "fresh" else f"nginx stands on the rung {rung!r}, not on a fresh weight table"


def _json(port: int, path: str) -> object:
    try:
        status, body = fetch(port, path)
        return json.loads(body) if status == 200 else None
    except (OSError, ValueError):
        return None
