#!/usr/bin/env bash
# nginx takes a server out for fail_timeout because it closed one idle connection at the wrong moment.
#
# Versions:  nginx 1.22.1 (Debian 12, 1.22.1-9+deb12u11)
# Expected:  a server may close an idle connection at any time (RFC 9112, 9.5), and a request may cross that on its
#            way. nginx knows the case: it gives the try back, whatever proxy_next_upstream_tries says, and asks the
#            next server. So the server is as well as before.
# Seen:      the try counts for `max_fails` (1 by default). With two servers and `keepalive`, the one that hangs up
#            gets the first, and a second one on the same connection. Then it is out for fail_timeout, 10 s.
#            ngx_http_upstream_next() raises the tries, and reports NGX_PEER_FAILED to the balancer.
# Steelyard: counts such a try for its own max_fails, because no variable of nginx tells a kept connection from a new
#            one. docs/guides/nginx-failures.md says how to avoid it.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root nginx=1.22.1-9+deb12u11
dpkg -x nginx_*.deb .
mkdir logs

python3 -I - <<'PYTHON'
import atexit
import os
import socket
import subprocess
import threading
import time
import urllib.request

REQUESTS = 20
received: dict[str, list[int]] = {"closing": [], "staying": []}


def serve(name: str, connection: socket.socket) -> None:
    """Answer requests; the server that closes answers one on each connection, and hangs up when the next one comes."""
    requests = 0
    with connection:
        while connection.recv(65536):
            requests += 1
            received[name].append(requests)
            if name == "closing" and requests > 1:
                return
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def accept(name: str, listener: socket.socket) -> None:
    while True:
        threading.Thread(target=serve, args=(name, listener.accept()[0]), daemon=True).start()


servers = {name: socket.create_server(("127.0.0.1", 0)) for name in received}
for name, listener in servers.items():
    threading.Thread(target=accept, args=(name, listener), daemon=True).start()
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
here = os.getcwd()
lines = " ".join(f"server 127.0.0.1:{listener.getsockname()[1]};" for listener in servers.values())
config = f"""
{"user root;" if os.geteuid() == 0 else ""}
daemon off; pid {here}/pid; error_log {here}/error.log; events {{}}
http {{
  access_log off;
  client_body_temp_path {here}/b; proxy_temp_path {here}/p; fastcgi_temp_path {here}/f;
  uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;
  proxy_http_version 1.1; proxy_set_header Connection "";
  upstream kept {{ {lines} keepalive 16; }}
  upstream fresh {{ {lines} }}
  server {{
    listen 127.0.0.1:{port};
    location /kept {{ proxy_pass http://kept; }}
    location /fresh {{ proxy_pass http://fresh; }}
  }}
}}
"""
with open("nginx.conf", "w", encoding="utf-8") as file:
    file.write(config)
command = [f"{here}/usr/sbin/nginx", "-p", here, "-e", f"{here}/error.log", "-c", f"{here}/nginx.conf"]
nginx = subprocess.Popen(command)
atexit.register(nginx.terminate)  # after an error, too
for _ in range(100):
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            break
    time.sleep(0.05)


def shares(path: str) -> dict[str, int]:
    """Return how many requests each server received; all of them were answered with 200."""
    for requests in received.values():
        requests.clear()
    for _ in range(REQUESTS):
        urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10).close()
    return {name: len(requests) for name, requests in received.items()}


fresh, kept = shares("/fresh"), shares("/kept")
nginx.terminate()
nginx.wait()
version = subprocess.run([command[0], "-v"], capture_output=True, text=True, check=True).stderr.strip()
print(f"{version}, of {REQUESTS} requests that were all answered: without keepalive {fresh}, with keepalive {kept}")
assert fresh == {"closing": 10, "staying": 10}
assert kept == {"closing": 2, "staying": 19}
PYTHON
