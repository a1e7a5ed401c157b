"""An Envoy without a controller, in front of two servers of the test's own."""

import contextlib
import http.client
import json
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from testing.daemons import Daemon, free_port

HOSTS = ("127.0.0.1", "127.0.0.2")
TYPES = "type.googleapis.com/envoy.extensions."


class Servers:
    """Two servers of one port: each answers with headers that depend on the path and on the server."""

    def __init__(self, headers: Callable[[str, int], Mapping[str, str]] = lambda *_: {}) -> None:
        self.port = free_port()
        self.held = threading.Event()
        self.held.set()
        self.waiting = Counter[int]()
        self._servers = []
        for number, host in enumerate(HOSTS):
            server = ThreadingHTTPServer((host, self.port), self._handler(number, headers))
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self._servers.append(server)

    def _handler(self, number: int, headers: Callable[[str, int], Mapping[str, str]]) -> Any:  # noqa: ANN401
        servers = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                servers.waiting[number] += 1
                servers.held.wait(30)
                self.send_response(200)
                for name, value in headers(self.path, number).items():
                    self.send_header(name, value)
                self.send_header("x-server", str(number))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def stop(self) -> None:
        """End both."""
        self.held.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()


@contextlib.contextmanager
def servers(headers: Callable[[str, int], Mapping[str, str]] = lambda *_: {}) -> Iterator[Servers]:
    """Run two servers."""
    made = Servers(headers)
    try:
        yield made
    finally:
        made.stop()


class Edge:
    """A running Envoy."""

    def __init__(self, port: int, admin: int) -> None:
        self.port = port
        self._admin = admin

    def hosts(self, name: str) -> list[Any]:
        """Return Envoy's statistics of a cluster's endpoints, in the order of HOSTS."""
        url = f"http://127.0.0.1:{self._admin}/clusters?format=json"
        with urllib.request.urlopen(url, timeout=10) as answer:
            document = json.load(answer)
        rows: list[Any] = next(
            (each.get("host_statuses", []) for each in document["cluster_statuses"] if each["name"] == name),
            [],
        )
        return sorted(rows, key=lambda row: str(row["address"]["socket_address"]["address"]))

    def get(self, connection: http.client.HTTPConnection, path: str = "/") -> str:
        """Send one request; return the server's number."""
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        return response.headers["x-server"] or str(response.status)

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection for requests."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)


@contextlib.contextmanager
def envoy(
    program: str,
    folder: Path,
    clusters: Sequence[Any],
    further: Sequence[Any] = (),
    **more: Any,  # noqa: ANN401
) -> Iterator[Edge]:
    """Run an Envoy with a route /NAME to each cluster, and / to the first."""
    port, admin = free_port(), free_port()
    routes = [
        {"match": {"prefix": f"/{each['name']}/"}, "route": {"cluster": each["name"]}} for each in clusters
    ]
    routes.append({"match": {"prefix": "/"}, "route": {"cluster": clusters[0]["name"]}})
    router = {"@type": f"{TYPES}filters.http.router.v3.Router"}
    manager = {
        "@type": f"{TYPES}filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "versions",
        "route_config": {"virtual_hosts": [{"name": "versions", "domains": ["*"], "routes": routes}]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    document = {
        "node": {"id": "versions", "cluster": "versions"},
        "admin": {"address": at("127.0.0.1", admin)},
        "static_resources": {
            "listeners": [
                {"address": at("127.0.0.1", port), "filter_chains": [{"filters": filters}]},
            ],
            "clusters": [*clusters, *further],
        },
        **more,
    }
    path = folder / "envoy.json"
    path.write_text(json.dumps(document))
    command = [program, "-c", str(path), "--concurrency", "1", "--disable-hot-restart", "--log-level", "warn"]
    daemon = Daemon(command, port, folder / "envoy.log")
    daemon.start()
    try:
        yield Edge(port, admin)
    finally:
        daemon.kill()


def at(host: str, port: int) -> Any:  # noqa: ANN401
    """Return Envoy's form of an address."""
    return {"socket_address": {"address": host, "port_value": port}}
