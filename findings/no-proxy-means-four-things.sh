#!/usr/bin/env bash
# NO_PROXY means other hosts to each of httpx, requests, urllib and curl.
#
# Versions:  httpx 0.28.1, requests 2.34.2 (PyPI), urllib of Python 3.11, curl 7.88.1 (Debian 12, 7.88.1-10+deb12u15)
# Expected:  each of them documents that it follows the environment's proxy variables, NO_PROXY among them. So one value
#            keeps all four away from a proxy for the same hosts.
# Seen:      of seven common ways to name a host on loopback, the four agree on three. `127.0.0.0/8` holds for requests
#            and curl, `127.0.0.1:PORT` for httpx and urllib, `localhost:PORT` for all but curl, and `.localhost` as a
#            name for localhost itself for all but httpx.
# Steelyard: no part of it follows these variables: its clients of httpx have trust_env=False, and the agent uses
#            http.client. A proxy of the environment is never asked for a machine of the cluster.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-compile \
  --target packages httpx==0.28.1 requests==2.34.2 2>/dev/null
apt-get download -qq -o APT::Sandbox::User=root curl=7.88.1-10+deb12u15 libcurl4=7.88.1-10+deb12u15 libnghttp2-14 \
  librtmp1 libssh2-1 libpsl5 libldap-2.5-0 libbrotli1 libsasl2-2
for package in *.deb; do dpkg -x "$package" .; done
unset HTTP_PROXY ALL_PROXY all_proxy NO_PROXY

PYTHONPATH="$folder/packages" python3 -s - <<'PYTHON'
import os
import subprocess
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import requests


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked = True
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def serve() -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


target, proxy = serve(), serve()
port = target.server_address[1]
os.environ["http_proxy"] = f"http://127.0.0.1:{proxy.server_address[1]}"
library = {**os.environ, "LD_LIBRARY_PATH": f"{os.getcwd()}/usr/lib/x86_64-linux-gnu"}


def by_curl(url: str) -> None:
    subprocess.run(["usr/bin/curl", "--silent", url], env={**library, "no_proxy": os.environ["no_proxy"]}, check=True)


CLIENTS = {
    "httpx": httpx.get,
    "requests": requests.get,
    "urllib": lambda url: urllib.request.urlopen(url).close(),
    "curl": by_curl,
}
CASES = {
    "127.0.0.1": "127.0.0.1",
    "localhost": "localhost",
    "*": "127.0.0.1",
    "127.0.0.0/8": "127.0.0.1",
    "127.0.0.1:PORT": "127.0.0.1",
    "localhost:PORT": "localhost",
    ".localhost": "localhost",
}


def without_proxy(no_proxy: str, host: str) -> list[str]:
    os.environ["no_proxy"] = no_proxy.replace("PORT", str(port))
    names = []
    for name, get in CLIENTS.items():
        proxy.asked = False
        get(f"http://{host}:{port}/")
        names += [] if proxy.asked else [name]
    return names


seen = {no_proxy: without_proxy(no_proxy, host) for no_proxy, host in CASES.items()}
for no_proxy, names in seen.items():
    print(f"NO_PROXY={no_proxy:14} and http://{CASES[no_proxy]}:PORT/: without the proxy go {', '.join(names)}")
everyone = list(CLIENTS)
assert seen == {
    "127.0.0.1": everyone,
    "localhost": everyone,
    "*": everyone,
    "127.0.0.0/8": ["requests", "curl"],
    "127.0.0.1:PORT": ["httpx", "urllib"],
    "localhost:PORT": ["httpx", "requests", "urllib"],
    ".localhost": ["requests", "urllib", "curl"],
}
PYTHON
