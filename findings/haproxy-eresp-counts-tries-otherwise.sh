#!/usr/bin/env bash
# HAProxy's eresp counts a connection that is reset before its response twice, and a response that stalls not at all.
#
# Versions:  HAProxy 2.6.12 (Debian 12, 2.6.12-1+deb12u4)
# Expected:  eresp are "response errors. srv_abrt will be counted here also", and srv_abrt are "data transfers aborted
#            by the server (inc. in eresp)" (management guide, 9.1). So a failed request is 1 in eresp, and a request
#            is in hrsp_2xx or in eresp.
# Seen:      one request each. A server that resets the connection is 2 in eresp. A response that breaks off is 1 in
#            hrsp_2xx, in srv_abrt and in eresp. One whose server falls silent until `timeout server` is 1 in hrsp_2xx
#            and in srv_abrt, and eresp is 0. Only a server that hangs up, or does not answer in time, is 1 in eresp
#            and 0 in the others.
# Steelyard: the reporter counted a response that broke off as completed and failed, and a silent one as completed.
#            Now both are failed (haproxy/show_stat.py).
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
import contextlib
import csv
import io
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable

HEADER = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"
# SO_LINGER with 0 s: close() sends a reset.
RESET = struct.pack("ii", 1, 0)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def hang_up(connection: socket.socket) -> None:
    pass


def late(connection: socket.socket) -> None:
    connection.recv(65536)  # until HAProxy hangs up


def cut(connection: socket.socket) -> None:
    connection.sendall(HEADER)
    time.sleep(0.2)


def silent(connection: socket.socket) -> None:
    connection.sendall(HEADER)
    connection.recv(65536)


SERVERS = {each.__name__: each for each in (reset, hang_up, late, cut, silent)}


def accept(behave: Callable[[socket.socket], None], listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(ConnectionResetError):
            connection.recv(65536)
            behave(connection)


backends = ""
for name, behave in SERVERS.items():
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=(behave, listener), daemon=True).start()
    backends += f"backend {name}\n    timeout server 500ms\n    server one 127.0.0.1:{listener.getsockname()[1]}\n"
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
{backends}
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


COLUMNS = ("eresp", "srv_abrt", "hrsp_2xx", "stot")
try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    statuses = {name: get(name) for name in SERVERS}
    time.sleep(0.3)
    seen = {name: tuple(int(column(name, "one", each)) for each in COLUMNS) for name in SERVERS}
finally:
    haproxy.terminate()
    haproxy.wait(10)
version = subprocess.run([*command[:1], "-v"], capture_output=True, text=True, check=True).stdout.split()[2]
print(f"HAProxy {version}, {COLUMNS} after one request: {seen}; statuses: {statuses}")
assert seen["hang_up"] == seen["late"] == (1, 0, 0, 1)
assert seen["reset"] == (2, 0, 0, 1), "a reset is no longer two errors"
assert seen["cut"] == (1, 1, 1, 1)
assert seen["silent"] == (0, 1, 1, 1), "a silent server is in eresp"
PYTHON
