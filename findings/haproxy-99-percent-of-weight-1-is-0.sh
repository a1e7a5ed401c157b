#!/usr/bin/env bash
# HAProxy sends nothing to a server of the default weight whose agent answers 99%: the weight is rounded down to 0.
#
# Versions:  HAProxy 2.6.12 (Debian 12, 2.6.12-1+deb12u4)
# Expected:  the percentage sets "the weight proportional to the initial weight of a server" (configuration guide,
#            agent-check). A server of weight 1 at 99 % beside another one gets nearly half. The guide warns of 0
#            only.
# Seen:      99 % of 1 is 0, and the server gets none of 20 requests. It is UP, its agent's check is passed, and
#            nothing is logged. With weight 100 it gets 99 to 100. `set server ... weight 99%` on the runtime socket
#            is the same.
# Steelyard: docs/guides/haproxy.md asks for `weight 100`. The reporter sets absolute weights, which begin at 1.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root haproxy=2.6.12-1+deb12u4 liblua5.3-0=5.3.6-2 \
    libopentracing-c-wrapper0=1.1.3-3+b1 libopentracing1=1.6.0-4
for package in *.deb; do dpkg -x "$package" .; done
library=$(dirname "$(find . -name 'liblua5.3.so.0')")
export LD_LIBRARY_PATH="$folder/$library"

python3 -I - <<'PYTHON'
import csv
import io
import os
import socket
import subprocess
import threading
import time
from collections import Counter

REQUESTS = 20
received: Counter[str] = Counter()


def accept(name: str, listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            received[name] += 1
            connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")


def start(name: str) -> int:
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=(name, listener), daemon=True).start()
    return listener.getsockname()[1]


def agent(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"up 99%\n")


ports = {name: start(name) for name in ("asked", "other")}
agents = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=agent, args=(agents,), daemon=True).start()
check = f"agent-check agent-port {agents.getsockname()[1]} agent-inter 100ms"
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
config = f"""
global
    stats socket {os.getcwd()}/admin.sock level admin
    nbthread 1
defaults
    mode http
    timeout client 10s
    timeout server 10s
    timeout connect 5s
frontend in
    bind 127.0.0.1:{port}
    use_backend %[path,field(2,/)]
backend one
    balance roundrobin
    server asked 127.0.0.1:{ports["asked"]} {check}
    server other 127.0.0.1:{ports["other"]}
backend hundred
    balance roundrobin
    server asked 127.0.0.1:{ports["asked"]} weight 100 {check}
    server other 127.0.0.1:{ports["other"]} weight 100
backend socket
    balance roundrobin
    server asked 127.0.0.1:{ports["asked"]}
    server other 127.0.0.1:{ports["other"]}
"""
with open("haproxy.cfg", "w", encoding="utf-8") as file:
    file.write(config)
command = ["usr/sbin/haproxy", "-db", "-f", "haproxy.cfg"]
haproxy = subprocess.Popen(command, stderr=subprocess.DEVNULL)


def ask(address: str | tuple[str, int], text: str) -> bytes:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as connection:
        connection.settimeout(20)
        connection.connect(address)
        connection.sendall(text.encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


def get(path: str) -> int:
    return int(ask(("127.0.0.1", port), f"GET /{path} HTTP/1.0\r\n\r\n")[9:12])


def column(backend: str, server: str, name: str) -> str:
    rows = csv.DictReader(io.StringIO(ask("admin.sock", "show stat\n").decode().removeprefix("# ")))
    return next(row[name] for row in rows if (row["pxname"], row["svname"]) == (backend, server))


def spread(backend: str) -> tuple[str, int]:
    received.clear()
    assert all(get(backend) == 200 for _ in range(REQUESTS))
    return column(backend, "asked", "weight"), received["asked"]


try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    for _ in range(200):
        if column("hundred", "asked", "weight") == "99" and column("one", "asked", "agent_status") == "L7OK":
            break
        time.sleep(0.05)
    ask("admin.sock", "set server socket/asked weight 99%\n")
    seen = {backend: spread(backend) for backend in ("one", "hundred", "socket")}
finally:
    haproxy.terminate()
    haproxy.wait(10)
version = subprocess.run([*command[:1], "-v"], capture_output=True, text=True, check=True).stdout.split()[2]
print(f"HAProxy {version}, (weight, requests of {REQUESTS}) of the server at 99 %: {seen}")
assert seen["one"] == seen["socket"] == ("0", 0)
assert seen["hundred"][0] == "99" and seen["hundred"][1] >= REQUESTS // 2 - 1
PYTHON
