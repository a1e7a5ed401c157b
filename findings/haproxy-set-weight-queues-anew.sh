#!/usr/bin/env bash
# HAProxy's leastconn asks the server first whose weight was set first, however small the change.
#
# Versions:  HAProxy 2.6.12 (Debian 12, 2.6.12-1+deb12u4)
# Expected:  ten idle servers of one weight get ten requests of a hundred each. HAProxy's reference says of
#            leastconn: "Round-robin is performed within groups of servers of the same load".
# Seen:      so they do while no weight is set. If all weights go from 100 to 101 and back between requests, the
#            server that is set first gets nearly all of them. A new weight takes a server out of the tree and
#            puts it behind the others of its load (fwlc_update_server_weight), so the commands' order is theirs.
# Steelyard: sets small changes every ten seconds at most, and begins with another server each time
#            (reporter, haproxy/weight_commands.py).
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
import os
import socket
import subprocess
import threading
import time

SERVERS, REQUESTS = 10, 100
received = [0] * SERVERS


def accept(number: int, listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            received[number] += 1
            connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")


listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(SERVERS)]
for number, listener in enumerate(listeners):
    threading.Thread(target=accept, args=(number, listener), daemon=True).start()
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
servers = "\n".join(
    f"    server s{number} 127.0.0.1:{listener.getsockname()[1]} weight 100"
    for number, listener in enumerate(listeners)
)
config = f"""
global
    stats socket {os.getcwd()}/admin.sock level admin
    nbthread 1
defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 5s
frontend in
    bind 127.0.0.1:{port}
    default_backend web
backend web
    balance leastconn
{servers}
"""
with open("haproxy.cfg", "w") as file:
    file.write(config)
haproxy = subprocess.Popen(["usr/sbin/haproxy", "-db", "-f", "haproxy.cfg"], stderr=subprocess.DEVNULL)


def ask(address: str | tuple[str, int], text: str) -> bytes:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as connection:
        connection.settimeout(10)
        connection.connect(address)
        connection.sendall(text.encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


def spread(weights: tuple[int, ...]) -> list[int]:
    received[:] = [0] * SERVERS
    for request in range(REQUESTS):
        if weights:
            weight = weights[request % len(weights)]
            ask("admin.sock", ";".join(f"set server web/s{n} weight {weight}" for n in range(SERVERS)) + "\n")
        assert ask(("127.0.0.1", port), "GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.")
    return list(received)


try:
    for _ in range(100):
        if os.path.exists("admin.sock"):
            break
        time.sleep(0.05)
    time.sleep(0.2)
    untouched, touched = spread(()), spread((101, 100))
    print("requests of ten idle servers, no weight set:            ", untouched)
    print("the same, all weights 101 and 100 between two requests: ", touched)
    assert max(untouched) <= 12, "no longer even without commands"
    assert touched[0] >= 50, "a new weight no longer queues a server anew"
finally:
    haproxy.terminate()
    haproxy.wait(10)
PYTHON
