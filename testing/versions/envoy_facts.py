"""Facts about one Envoy on which the guides rely, seen on that Envoy without a controller.

Each entry of FACTS is a function of an Envoy's path and a folder. It returns the rows of the page's table.
"""

import base64
import contextlib
import http.client
import json
import struct
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
from steelyard_controller.xds.xds_messages import EDS_TYPE, LoadStatsRequest, LoadStatsResponse

from testing.daemons import Daemon, free_port
from testing.waiting import wait_until

HOSTS = ("127.0.0.1", "127.0.0.2")
TYPES = "type.googleapis.com/envoy.extensions."

# A change of weights this long before a drain keeps Envoy's window of a second open.
CHANGE_BEFORE_DRAIN_S = 0.1
WATCHED_S = 1.6

LONG_REQUESTS = 8
LRS_WINDOWS = 5


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
        "admin": {"address": _at("127.0.0.1", admin)},
        "static_resources": {
            "listeners": [
                {"address": _at("127.0.0.1", port), "filter_chains": [{"filters": filters}]},
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


def _at(host: str, port: int) -> Any:  # noqa: ANN401
    return {"socket_address": {"address": host, "port_value": port}}


def _endpoints(port: int, weights: tuple[int, int], health: tuple[str, str] = ("UNKNOWN", "UNKNOWN")) -> Any:  # noqa: ANN401
    return [
        {
            "lb_endpoints": [
                {
                    "endpoint": {"address": _at(host, port)},
                    "health_status": state,
                    "load_balancing_weight": weight,
                }
                for host, weight, state in zip(HOSTS, weights, health, strict=True)
            ]
        }
    ]


def _static(name: str, port: int, **more: Any) -> Any:  # noqa: ANN401
    assignment = {"cluster_name": name, "endpoints": _endpoints(port, (1, 1))}
    return {"name": name, "connect_timeout": "1s", "load_assignment": assignment, **more}


def _drained_ms(program: str, folder: Path, window: str | None) -> tuple[int, int]:
    """Return the requests that a drained server gets, and until when, if its weight has just changed."""
    file = folder / "endpoints.json"

    def write(weights: tuple[int, int], health: tuple[str, str] = ("UNKNOWN", "UNKNOWN")) -> None:
        resource = {
            "@type": EDS_TYPE,
            "cluster_name": "web",
            "endpoints": _endpoints(web.port, weights, health),
        }
        new = folder / "new.json"
        new.write_text(json.dumps({"resources": [resource]}))
        new.rename(file)

    with servers() as web:
        write((10, 10))
        source = {"resource_api_version": "V3", "path_config_source": {"path": str(file)}}
        cluster: Any = {"name": "web", "type": "EDS", "eds_cluster_config": {"eds_config": source}}
        if window is not None:
            cluster["common_lb_config"] = {"update_merge_window": window}
        with envoy(program, folder, [cluster]) as edge:
            wait_until(lambda: len(edge.hosts("web")) == len(HOSTS))
            connection = edge.connect()
            for _ in range(20):
                edge.get(connection)
            # Later than any window of Envoy's own start.
            time.sleep(1.5)
            write((10, 11))
            time.sleep(CHANGE_BEFORE_DRAIN_S)
            write((10, 11), ("DRAINING", "UNKNOWN"))
            wait_until(lambda: edge.hosts("web")[0]["health_status"]["eds_health_status"] == "DRAINING")
            begun_s, count, last_s = time.monotonic(), 0, 0.0
            while (now_s := time.monotonic() - begun_s) < WATCHED_S:
                if edge.get(connection) == "0":
                    count, last_s = count + 1, now_s
                time.sleep(0.005)
            connection.close()
    return count, round(1000 * last_s)


def _drain(program: str, folder: Path) -> dict[str, str]:
    seen = {
        "": _drained_ms(program, folder, None),
        ", with `update_merge_window: 0s`": _drained_ms(program, folder, "0s"),
    }
    return {name: f"{count}, until {ms} ms" if count else "0" for name, (count, ms) in seen.items()}


def _lrs(program: str, folder: Path) -> dict[str, str]:
    """Let 8 requests wait for five reports, then end; one report later, send 4 more."""
    with _reporting(program, folder) as (edge, web, messages):
        web.held.clear()
        clients = [threading.Thread(target=lambda: edge.get(edge.connect())) for _ in range(LONG_REQUESTS)]
        for client in clients:
            client.start()
        wait_until(lambda: web.waiting.total() == LONG_REQUESTS)
        reports = [messages.get(timeout=30) for _ in range(LRS_WINDOWS)]
        seen = [_total(each, "total_requests_in_progress") for each in reports]
        web.held.set()
        for client in clients:
            client.join()
        reports += [messages.get(timeout=30) for _ in range(2)]
        ended = sum(_total(each, "total_successful_requests") for each in reports)
        connection = edge.connect()
        for _ in HOSTS * 2:
            edge.get(connection)
        reports = [messages.get(timeout=30) for _ in range(2)]
    after = sum(_total(each, "total_successful_requests") for each in reports)
    return {
        "open requests in its five reports": " ".join(map(str, seen)),
        "completed ones in the reports at their end": str(ended),
        "completed ones after 4 short requests more": str(after),
    }


@contextlib.contextmanager
def _reporting(program: str, folder: Path) -> Iterator[tuple[Edge, Servers, SimpleQueue[bytes]]]:
    """Run servers, and an Envoy whose LRS reports arrive in the queue."""
    messages: SimpleQueue[bytes] = SimpleQueue()

    def handle(requests: Iterator[bytes], _: object) -> Iterator[bytes]:
        next(requests)
        response = LoadStatsResponse(send_all_clusters=True, report_endpoint_granularity=True)
        response.load_reporting_interval.FromMilliseconds(1000)
        yield response.SerializeToString()
        for request in requests:
            messages.put(request)

    service, port = grpc.server(futures.ThreadPoolExecutor(4)), free_port()
    method = {"StreamLoadStats": grpc.stream_stream_rpc_method_handler(handle)}
    name = "envoy.service.load_stats.v3.LoadReportingService"
    service.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, method),))
    service.add_insecure_port(f"127.0.0.1:{port}")
    service.start()
    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    http2: dict[str, Any] = {"explicit_http_config": {"http2_protocol_options": {}}}
    reports = {
        "name": "reports",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": "reports",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _at("127.0.0.1", port)}}]}],
        },
        "typed_extension_protocol_options": {options: {"@type": f"type.googleapis.com/{options}", **http2}},
    }
    grpc_services = [{"envoy_grpc": {"cluster_name": "reports"}}]
    lrs = {"api_type": "GRPC", "transport_api_version": "V3", "grpc_services": grpc_services}
    manager = {"load_stats_config": lrs}
    try:
        with (
            servers() as web,
            envoy(program, folder, [_static("web", web.port)], [reports], cluster_manager=manager) as edge,
        ):
            messages.get(timeout=30)
            yield edge, web, messages
    finally:
        service.stop(0)


def _total(message: bytes, field: str) -> int:
    return sum(
        getattr(endpoint, field)
        for cluster in LoadStatsRequest.FromString(message).cluster_stats
        if cluster.cluster_name == "web"
        for locality in cluster.upstream_locality_stats
        for endpoint in locality.upstream_endpoint_stats
    )


def _out_of_band(program: str, folder: Path) -> dict[str, str]:
    """Ask Envoy whether it accepts agent/examples/envoy.yaml with its lines for out-of-band reports."""
    text = (Path(__file__).parents[2] / "agent" / "examples" / "envoy.yaml").read_text(encoding="utf-8")
    for name in ("enable_oob_load_report", "oob_reporting_period", "oob_reporting_config"):
        text = text.replace(f"# {name}", name)
    path = folder / "oob.yaml"
    path.write_text(text)
    command = [program, "-c", str(path), "--mode", "validate", "--log-level", "error"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0 or "oob_" in said or "enable_oob" in said, said
    return {"": "no" if done.returncode else "yes"}


# A report with a field of two bytes: its length is no multiple of three, so base64 pads it.
def _binary(cpu: float) -> str:
    message = b"\x09" + struct.pack("<d", cpu) + b"\x31" + struct.pack("<d", 100) + b"\x18\x01"
    return base64.b64encode(message).decode()


# Two servers' reports, and the policy's settings.
ORCA: dict[str, tuple[tuple[str, str], dict[str, Any]]] = {
    "base64, padded": ((f"BIN {_binary(0.2)}", f"BIN {_binary(0.8)}"), {}),
    "base64, not padded": ((f"BIN {_binary(0.2).rstrip('=')}", f"BIN {_binary(0.8).rstrip('=')}"), {}),
    "`utilization.x` in TEXT": (
        ("TEXT rps_fractional=100,utilization.x=0.2", "TEXT rps_fractional=100,utilization.x=0.8"),
        {"metric_names_for_computing_utilization": ["utilization.x"]},
    ),
    "application_utilization .8 and .2, named metric .2 and .8": (
        (
            "TEXT rps_fractional=100,application_utilization=0.8,named_metrics.x=0.2",
            "TEXT rps_fractional=100,application_utilization=0.2,named_metrics.x=0.8",
        ),
        {"metric_names_for_computing_utilization": ["named_metrics.x"]},
    ),
    "equal, the second one with errors": (
        ("TEXT rps_fractional=100,cpu_utilization=0.2", "TEXT rps_fractional=100,cpu_utilization=0.2,eps=60"),
        {},
    ),
    "the same, `error_utilization_penalty: 1`": (
        ("TEXT rps_fractional=100,cpu_utilization=0.2", "TEXT rps_fractional=100,cpu_utilization=0.2,eps=60"),
        {"error_utilization_penalty": 1},
    ),
}


def _orca(program: str, folder: Path) -> dict[str, str]:

    def headers(path: str, number: int) -> Mapping[str, str]:
        return {"endpoint-load-metrics": reports[int(path.split("/")[1].removeprefix("case-"))][number]}

    reports = [values for values, _ in ORCA.values()]
    policy = "client_side_weighted_round_robin"
    kind = f"{TYPES}load_balancing_policies.{policy}.v3.ClientSideWeightedRoundRobin"
    with servers(headers) as web:
        clusters = [
            _static(
                f"case-{number}",
                web.port,
                load_balancing_policy={
                    "policies": [
                        {
                            "typed_extension_config": {
                                "name": f"envoy.load_balancing_policies.{policy}",
                                "typed_config": {
                                    "@type": kind,
                                    "blackout_period": "0.1s",
                                    "weight_update_period": "0.2s",
                                    **more,
                                },
                            }
                        }
                    ]
                },
            )
            for number, (_, more) in enumerate(ORCA.values())
        ]
        with envoy(program, folder, clusters) as edge:
            connection = edge.connect()
            for _ in range(6):
                for cluster in clusters:
                    for _ in range(6):
                        edge.get(connection, f"/{cluster['name']}/")
                time.sleep(0.3)
            connection.close()
            weights = [[host["weight"] for host in edge.hosts(each["name"])] for each in clusters]
    return {name: f"{first} : {second}" for name, (first, second) in zip(ORCA, weights, strict=True)}


OUT_OF_BAND = "out-of-band ORCA is accepted"

FACTS: Mapping[str, Callable[[str, Path], dict[str, str]]] = {
    "requests to a server after Envoy knows that it is drained": _drain,
    "8 long requests: ": _lrs,
    OUT_OF_BAND: _out_of_band,
    "ORCA, weights of two servers: ": _orca,
}
