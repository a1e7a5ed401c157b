#!/usr/bin/env bash
# nginx's $upstream_response_length counts the framing of chunks, so it is no length of the body.
#
# Versions:  nginx 1.22.1 (Debian 12, 1.22.1-9+deb12u11)
# Expected:  "$upstream_response_length keeps the length of the response obtained from the upstream server", and
#            $upstream_bytes_received the bytes (ngx_http_upstream_module). With Content-Length, it is the length of
#            the body. So it is the same for the same body in chunks, and as large as $body_bytes_sent to an old
#            client.
# Seen:      five bytes in one chunk give 15: the lines with the sizes and the last chunk count. Five chunks of a byte
#            give 35, with `proxy_buffering` on and off. $body_bytes_sent is 5.
# Steelyard: phase/request_log.lua compares it with Content-Length, and never looks at it for chunks.
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

HEAD = b"HTTP/1.1 200 OK\r\n"
RESPONSES = {
    "length": HEAD + b"Content-Length: 5\r\n\r\nhello",
    "chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(b"1\r\n%c\r\n" % c for c in b"hello")
    + b"0\r\n\r\n",
}


def serve(connection: socket.socket) -> None:
    with connection:
        while request := connection.recv(65536):
            connection.sendall(RESPONSES[request.split()[1].decode().split("/")[2]])


def accept(listener: socket.socket) -> None:
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=accept, args=(listener,), daemon=True).start()
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
here = os.getcwd()
server = f"http://127.0.0.1:{listener.getsockname()[1]}"
config = f"""
{"user root;" if os.geteuid() == 0 else ""}
daemon off; pid {here}/pid; error_log {here}/error.log; events {{}}
http {{
  log_format line "$uri $upstream_response_length $body_bytes_sent"; access_log {here}/access.log line;
  client_body_temp_path {here}/b; proxy_temp_path {here}/p; fastcgi_temp_path {here}/f;
  uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;
  proxy_http_version 1.1; proxy_set_header Connection "";
  server {{
    listen 127.0.0.1:{port};
    location /buffered/ {{ proxy_pass {server}; }}
    location /unbuffered/ {{ proxy_pass {server}; proxy_buffering off; }}
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

paths = [f"/{how}/{name}" for how in ("buffered", "unbuffered") for name in RESPONSES]
for path in paths:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    assert answer.endswith(b"\r\n\r\nhello"), answer
nginx.terminate()
nginx.wait()
with open("access.log", encoding="utf-8") as file:
    seen = {path: (int(length), int(sent)) for path, length, sent in map(str.split, file)}
version = subprocess.run([command[0], "-v"], capture_output=True, text=True, check=True).stderr.strip()
print(f"{version}, $upstream_response_length and $body_bytes_sent of five bytes: {seen}")
assert seen == {
    "/buffered/length": (5, 5),
    "/buffered/chunk": (15, 5),
    "/buffered/chunks": (35, 5),
    "/unbuffered/length": (5, 5),
    "/unbuffered/chunk": (15, 5),
    "/unbuffered/chunks": (35, 5),
}
PYTHON
