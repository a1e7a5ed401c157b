#!/usr/bin/env bash
# nginx logs $request_completion OK and status 200 for a response that its server broke off.
#
# Versions:  nginx 1.22.1 (Debian 12, 1.22.1-9+deb12u11)
# Expected:  nginx's reference (ngx_http_core_module): $request_completion is "OK" if a request has completed, or an
#            empty string otherwise. A response without its last chunk has not completed.
# Seen:      with chunks, a server that hangs up in the middle of its body leaves a line "upstream prematurely closed
#            connection" in the error log. The access log has status 200 and OK, as for a whole response. The client
#            sees that the last chunk is missing. The variable is empty if the client leaves.
# Steelyard: `phase/request_log.lua` compares lengths if there is a Content-Length. A body in chunks counts as broken
#            only if release() or inference.answer() in body_filter_by_lua saw no end of it.
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

FIRST = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
LAST = b"0\r\n\r\n"


def serve(connection: socket.socket) -> None:
    with connection:
        path = connection.recv(65536).split()[1]
        connection.sendall(FIRST + (LAST if path == b"/whole" else b""))
        if path == b"/endless":
            connection.recv(65536)  # until nginx hangs up


def accept(listener: socket.socket) -> None:
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=accept, args=(listener,), daemon=True).start()
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
here = os.getcwd()
config = f"""
{"user root;" if os.geteuid() == 0 else ""}
daemon off; pid {here}/pid; error_log {here}/error.log; events {{}}
http {{
  log_format line "$uri $status '$request_completion'"; access_log {here}/access.log line;
  client_body_temp_path {here}/b; proxy_temp_path {here}/p; fastcgi_temp_path {here}/f;
  uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{listener.getsockname()[1]}; proxy_http_version 1.1; proxy_buffering off;
    }}
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


def asked(path: str) -> bytes:
    """Send a request; return all that comes, or the beginning of an endless body."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while piece := client.recv(65536):
            answer += piece
            if path == "/endless" and b"hello" in answer:
                break
        return answer


ends = {path: asked(path).endswith(LAST) for path in ("/whole", "/cut", "/endless")}
for _ in range(100):
    with open("access.log", encoding="utf-8") as file:
        lines = file.read().splitlines()
    if len(lines) == 3:
        break
    time.sleep(0.05)
nginx.terminate()
nginx.wait()
with open("error.log", encoding="utf-8") as file:
    errors = file.read().count("upstream prematurely closed connection")
version = subprocess.run([command[0], "-v"], capture_output=True, text=True, check=True).stderr.strip()
print(f"{version}: {'; '.join(lines)}; {errors} logged; the last chunk came: {ends}")
assert lines == ["/whole 200 'OK'", "/cut 200 'OK'", "/endless 200 ''"]
assert (ends["/whole"], ends["/cut"], errors) == (True, False, 1)
PYTHON
