#!/usr/bin/env bash
# urllib3 sends a GET four times if the answer is 503 with Retry-After, although no status is to be retried.
#
# Versions:  urllib3 2.8.0 and requests 2.34.2 (PyPI)
# Expected:  `status_forcelist` is "a set of integer HTTP status codes that we should force a retry on", and empty by
#            default. So the first 503, 429 or 413 is returned.
# Seen:      with a Retry-After header each of these is asked for three times more, after the server's own pause, and
#            then returned. Without the header it is returned at once, as is a 500 or the answer to a POST. requests
#            turns retries off, so it returns the first. The kubernetes client (37.0.2) has urllib3's default: its
#            lists and watches have it, too.
# Steelyard: discovery asks the API server with httpx, which does not retry, and its pauses are bounded
#            (discovery/watch.py).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
  --target "$folder/packages" urllib3==2.8.0 requests==2.34.2
PYTHONPATH="$folder/packages" python3 -s - <<'PYTHON'
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests
import urllib3

received = 0


class Handler(BaseHTTPRequestHandler):
    """Answers /STATUS with that status, and /STATUS/wait with a Retry-After as well."""

    def do_GET(self) -> None:
        global received
        received += 1
        status, wait = self.path[1:4], self.path.endswith("/wait")
        self.send_response(int(status))
        if wait:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_address[1]}"
pool = urllib3.PoolManager()


def sent(method: str, path: str) -> int:
    global received
    received = 0
    assert pool.request(method, base + path).status == int(path[1:4])
    return received


seen = {path: sent("GET", path) for path in ("/503", "/503/wait", "/429/wait", "/413/wait", "/500/wait")}
post = sent("POST", "/503/wait")
received = 0
requests.get(f"{base}/503/wait", timeout=30)
print(f"urllib3 {urllib3.__version__}, requests sent by one call: {seen}; POST {post}; by requests {received}")
assert seen == {"/503": 1, "/503/wait": 4, "/429/wait": 4, "/413/wait": 4, "/500/wait": 1}
assert (post, received) == (1, 1)
PYTHON
