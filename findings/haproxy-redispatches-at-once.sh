#!/usr/bin/env bash
# HAProxy's `option redispatch` takes another server at once, without the retries that its guide has before that.
#
# Versions:  HAProxy 2.6.12 (Debian 12, 2.6.12-1+deb12u4)
# Expected:  "the default of -1 preserves the historical behavior of redispatching on the last retry" (configuration
#            guide), with `retries 3` on the third one, and a second passes before each retry.
# Seen:      that is so if a hash chose the server. With roundrobin, leastconn and random a refused connection goes to
#            another server at once: no retry (wretr 0), one redispatch (wredis 1). So the option costs a request
#            nothing. Without it, the same request waits for three seconds and is answered 503.
# Steelyard: the haproxy.cfg of docs/guides/haproxy.md have the option.
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


with socket.create_server(("127.0.0.1", 0)) as free:
    dead = free.getsockname()[1]
works = start("works")
servers = f"""
    server dead 127.0.0.1:{dead}
    server works 127.0.0.1:{works}
"""
algorithms = ("roundrobin", "leastconn", "random")
backends = "".join(f"backend {each}\n    balance {each}\n    option redispatch{servers}" for each in algorithms)
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
backend hash
    balance url_param key
    hash-type consistent
    option redispatch{servers}
backend without
    balance roundrobin{servers}
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


def ask_until_refused(backend: str) -> dict[str, int]:
    """Send requests until the server that refuses was chosen once; return the status and the counts of that request."""
    for number in range(200):
        status = get(f"{backend}/?key={number}")
        counts = {name: int(column(backend, "dead", name)) for name in ("wretr", "wredis", "econ")}
        if any(counts.values()):
            return {"status": status, **counts}
    raise AssertionError(f"{backend} never chose the server that refuses")


try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    seen = {backend: ask_until_refused(backend) for backend in (*algorithms, "hash", "without")}
finally:
    haproxy.terminate()
    haproxy.wait(10)
version = subprocess.run([*command[:1], "-v"], capture_output=True, text=True, check=True).stdout.split()[2]
for backend, counts in seen.items():
    print(f"HAProxy {version}, {backend}: {counts}")
at_once = {"status": 200, "wretr": 0, "wredis": 1, "econ": 0}
assert all(seen[each] == at_once for each in algorithms), "no longer at once"
assert seen["hash"] == {"status": 200, "wretr": 2, "wredis": 1, "econ": 0}
assert seen["without"] == {"status": 503, "wretr": 3, "wredis": 0, "econ": 1}
PYTHON
