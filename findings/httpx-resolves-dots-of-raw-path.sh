#!/usr/bin/env bash
# httpx removes `.` and `..` from the bytes that a caller gives as a URL's `raw_path`.
#
# Versions:  httpx 0.28.1
# Expected:  `raw_path` is "the complete URL path and query string as raw bytes. Used as the target when
#            constructing HTTP requests" (its docstring), so a given `raw_path` is requested as given.
# Seen:      `URL(base).copy_with(raw_path=b"/a/b/..")` asks for /a. `%2e%2e` stays. So a forwarder that checks
#            a path and then asks with httpx asks for another path than it has checked.
# Steelyard: a standby judged the client's path and the leader got another one, which it judged again. Now the
#            standby writes the plain path of its matched route (api/forward_to_leader.py).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check httpx==0.28.1

"$folder/venv/bin/python" - <<'PYTHON'
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx

asked = []


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = httpx.URL(f"http://127.0.0.1:{server.server_port}")
given = [b"/a/b/..", b"/a/./b", b"/a/../../b", b"/a/%2e%2e/b", b"/a//b"]
with httpx.Client(trust_env=False) as client:
    for raw in given:
        client.get(base.copy_with(raw_path=raw))
server.shutdown()
for raw, path in zip(given, asked):
    print(f"raw_path {raw.decode():12} is asked for as {path}")
assert asked == ["/a", "/a/b", "/b", "/a/%2e%2e/b", "/a//b"], asked
PYTHON
