#!/usr/bin/env bash
# nginx does not count a try over a kept connection that the server closes: proxy_next_upstream_tries is no limit.
#
# Versions:  nginx 1.22.1 (Debian 12, 1.22.1-9+deb12u11)
# Expected:  `proxy_next_upstream_tries 1` sends a request to one server. nginx's reference says that it "limits the
#            number of possible tries for passing a request to the next server".
# Seen:      with `keepalive`, a GET whose servers hang up on it is sent to all six of them. nginx raises the number
#            of tries for each kept connection that fails (ngx_http_upstream_next), because the server may have
#            closed it while it was idle. It cannot tell that from a server that died of the request.
# Steelyard: counts the tries of a request itself (core/retries.lua). OpenResty 1.29.2.4 has a patch for pools of
#            ngx_lua, balancer_pool_max_retry.
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
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

SERVERS = 6
received: list[int] = []
crashing = threading.Event()


def serve(number: int, connection: socket.socket) -> None:
    with connection:
        while connection.recv(65536):
            received.append(number)
            if crashing.is_set():
                return
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def accept(number: int, listener: socket.socket) -> None:
    while True:
        threading.Thread(target=serve, args=(number, listener.accept()[0]), daemon=True).start()


listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(SERVERS)]
for number, listener in enumerate(listeners):
    threading.Thread(target=accept, args=(number, listener), daemon=True).start()
ports = [listener.getsockname()[1] for listener in listeners]
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
here = os.getcwd()
servers = " ".join(f"server 127.0.0.1:{one};" for one in ports)
config = f"""
{"user root;" if os.geteuid() == 0 else ""}
daemon off; pid {here}/pid; error_log {here}/error.log; events {{}}
http {{
  access_log off;
  client_body_temp_path {here}/b; proxy_temp_path {here}/p; fastcgi_temp_path {here}/f;
  uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_next_upstream_tries 1;
  upstream kept {{ {servers} keepalive 16; }}
  upstream fresh {{ {servers} }}
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


def asked(path: str) -> int:
    """Send as many requests as there are servers, then one on which they hang up; return the servers that got it."""
    crashing.clear()
    for _ in range(SERVERS):
        urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10).close()
    received.clear()
    crashing.set()
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10).close()
    except urllib.error.HTTPError as error:
        assert error.code == 502, error
    return len(set(received))


kept, fresh = asked("/kept"), asked("/fresh")
nginx.terminate()
nginx.wait()
version = subprocess.run([command[0], "-v"], capture_output=True, text=True, check=True).stderr.strip()
print(f"{version}, proxy_next_upstream_tries 1: {kept} servers got the request over kept connections, {fresh} over new")
assert (kept, fresh) == (SERVERS, 1)
PYTHON
