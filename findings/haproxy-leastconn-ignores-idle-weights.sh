#!/usr/bin/env bash
# HAProxy's leastconn sends an idle server of weight 1 as many requests as one of weight 100.
#
# Versions:  HAProxy 2.6.12 (Debian 12, 2.6.12-1+deb12u4)
# Expected:  "All servers will receive a load proportional to their weight relative to the sum of all weights"
#            (configuration guide, `weight`). There is no exception for leastconn. nginx's least_conn breaks ties by
#            weight.
# Seen:      with one request at a time, servers of weights 1 and 100 get 50 of 100 each. HAProxy compares connections
#            / weight, which is 0 for both, and takes equal ones in turn. roundrobin and `random` give the first one
#            about 1 of 100.
# Steelyard: docs/guides/haproxy.md recommends `random` for short requests.
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

REQUESTS = 100
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


ports = {name: start(name) for name in ("light", "heavy")}
servers = f"""
    server light 127.0.0.1:{ports["light"]} weight 1
    server heavy 127.0.0.1:{ports["heavy"]} weight 100
"""
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
backend leastconn
    balance leastconn{servers}
backend roundrobin
    balance roundrobin{servers}
backend random
    balance random{servers}
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


def spread(backend: str) -> int:
    received.clear()
    assert all(get(backend) == 200 for _ in range(REQUESTS))
    return received["light"]


try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    seen = {backend: spread(backend) for backend in ("leastconn", "roundrobin", "random")}
finally:
    haproxy.terminate()
    haproxy.wait(10)
version = subprocess.run([*command[:1], "-v"], capture_output=True, text=True, check=True).stdout.split()[2]
print(f"HAProxy {version}, requests of {REQUESTS} at weight 1 beside 100, one at a time: {seen}")
assert 45 <= seen["leastconn"] <= 55, "leastconn follows the weights of idle servers"
assert seen["roundrobin"] <= 2 and seen["random"] <= 12
PYTHON
