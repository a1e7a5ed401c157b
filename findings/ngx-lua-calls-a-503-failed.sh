#!/usr/bin/env bash
# ngx.balancer's get_last_failure calls a server's own 503 "failed", as if the connection had broken.
#
# Versions:  nginx 1.22.1 (Debian 12), libnginx-mod-http-lua 0.10.23, lua-resty-core 0.1.25
# Expected:  README of lua-resty-core: "next" is for "Failures due to bad status codes sent from the backend server".
#            Then "the backend connection can still be reused for future requests". "failed" is for "Fatal errors
#            while communicating to the backend server".
# Seen:      with `proxy_next_upstream http_404 http_503`, a 404 is "next" and a 503 is "failed", as is a connection
#            that was refused. nginx has NGX_PEER_NEXT for 403 and 404 alone. Nor is a connection used again, with
#            `keepalive`: five retried answers cost five connections, for a 404 as well, because nginx does not read
#            their bodies.
# Steelyard: phase/balance.lua asks only whether the request is a retry. It classes tries by $upstream_status and
#            $upstream_header_time (core/try_outcomes.lua).
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root nginx=1.22.1-9+deb12u11 \
  libnginx-mod-http-lua=1:0.10.23-1+deb12u1 libnginx-mod-http-ndk=1:0.3.2-3 libluajit2-5.1-2=2.1-20230119-1 \
  lua-resty-core=0.1.25-1 lua-resty-lrucache=0.13-10
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"
mkdir logs

python3 -I - <<'PYTHON'
import atexit
import os
import socket
import subprocess
import threading
import time
import urllib.request

connections: dict[int, int] = {}


def serve(connection: socket.socket, status: int) -> None:
    with connection:
        while connection.recv(65536):
            connection.sendall(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\nok" % status)


def accept(listener: socket.socket, status: int) -> None:
    while True:
        connection = listener.accept()[0]
        connections[status] = connections.get(status, 0) + 1
        threading.Thread(target=serve, args=(connection, status), daemon=True).start()


ports = {}
for status in (200, 404, 503):
    listener = socket.create_server(("127.0.0.1", 0))
    ports[status] = listener.getsockname()[1]
    threading.Thread(target=accept, args=(listener, status), daemon=True).start()
with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as refusing:
    port, ports[0] = free.getsockname()[1], refusing.getsockname()[1]
here = os.getcwd()
blocks = "".join(
    f"""
  upstream u{status} {{
    server 0.0.0.1;
    balancer_by_lua_block {{
      local balancer = require "ngx.balancer"
      local failure, status = balancer.get_last_failure()
      if failure then
        ngx.ctx.failure = failure .. " " .. status
      else
        balancer.set_more_tries(1)
      end
      assert(balancer.set_current_peer("127.0.0.1", failure and {ports[200]} or {ports[status]}))
    }}
    keepalive 8;
  }}"""
    for status in (404, 503, 0)
)
locations = "".join(f"location /{status} {{ proxy_pass http://u{status}; }}" for status in (404, 503, 0))
modules = f"{here}/usr/lib/nginx/modules"
config = f"""
{"user root;" if os.geteuid() == 0 else ""}
load_module {modules}/ndk_http_module.so; load_module {modules}/ngx_http_lua_module.so;
daemon off; pid {here}/pid; error_log {here}/error.log; events {{}}
http {{
  access_log off;
  client_body_temp_path {here}/b; proxy_temp_path {here}/p; fastcgi_temp_path {here}/f;
  uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;
  lua_package_path "{here}/usr/share/lua/5.1/?.lua;;";
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_next_upstream error http_404 http_503;
  {blocks}
  server {{
    listen 127.0.0.1:{port};
    header_filter_by_lua_block {{ ngx.header["X-Failure"] = ngx.ctx.failure }}
    {locations}
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


def failures(status: int) -> set[str]:
    """Return what get_last_failure says in five requests whose first server answers with a status; 0: refuses."""
    seen = set()
    for _ in range(5):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{status}", timeout=10) as answer:
            seen.add(answer.headers["X-Failure"])
    return seen


seen = {status: failures(status) for status in (404, 503, 0)}
nginx.terminate()
nginx.wait()
version = subprocess.run([command[0], "-v"], capture_output=True, text=True, check=True).stderr.strip()
opened = {status: connections[status] for status in (404, 503)}
print(f"{version}, get_last_failure after a 404, a 503, a refused connection: {seen}")
print(f"connections that five requests opened: {opened}")
assert seen == {404: {"next 404"}, 503: {"failed 503"}, 0: {"failed 502"}}
assert opened == {404: 5, 503: 5}
PYTHON
