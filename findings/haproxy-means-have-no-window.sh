#!/usr/bin/env bash
# HAProxy's rtime still has the latency of old requests after 1024 new ones: it is no mean of the last 1024.
#
# Versions:  HAProxy 2.6.12 (Debian 12, 2.6.12-1+deb12u4)
# Expected:  rtime is "the average response time in ms over the 1024 last requests" (management guide, 9.1). After 100
#            slow requests and 1024 fast ones it is that of the fast ones.
# Seen:      100 requests of 300 ms, then 1024 of about none: rtime is 18 or more. HAProxy keeps a sum that slides
#            over 512 requests, and takes a 512th of it away with each new one (TIME_STATS_SAMPLES, swrate_add). The
#            slow ones have a third of their part left, and vanish after 4000. qtime, ctime and ttime are the same.
# Steelyard: the reporter's haproxy/latency.py takes the means of the latest requests out of that sum.
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

SLOW, FAST, SLOW_S = 100, 1024, 0.3


def serve(connection: socket.socket) -> None:
    with connection:
        if b"/slow" in connection.recv(65536):
            time.sleep(SLOW_S)
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")


def accept(listener: socket.socket) -> None:
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


listener = socket.create_server(("127.0.0.1", 0), backlog=SLOW)
threading.Thread(target=accept, args=(listener,), daemon=True).start()
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
    default_backend web
backend web
    server one 127.0.0.1:{listener.getsockname()[1]}
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


try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    clients = [threading.Thread(target=get, args=("slow",)) for _ in range(SLOW)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    first = int(column("web", "one", "rtime"))
    assert all(get("fast") == 200 for _ in range(FAST))
    last = int(column("web", "one", "rtime"))
finally:
    haproxy.terminate()
    haproxy.wait(10)
version = subprocess.run([*command[:1], "-v"], capture_output=True, text=True, check=True).stdout.split()[2]
print(f"HAProxy {version}, rtime after {SLOW} of {1000 * SLOW_S:.0f} ms: {first}; {FAST} fast ones later: {last}")
assert first >= 1000 * SLOW_S
# A 512th of the sum, of which (1 - 1/512)^(1124 - 512) is left.
assert last >= 1000 * SLOW_S * SLOW / 512 * (1 - 1 / 512) ** (SLOW + FAST - 512) - 1, "the old requests are forgotten"
PYTHON
