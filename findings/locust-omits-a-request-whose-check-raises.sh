#!/usr/bin/env bash
# locust counts a request nowhere if the code that checks its response raises an exception.
#
# Versions:  locust 2.47.0 (PyPI)
# Expected:  a user who checks a response in `with self.client.get(..., catch_response=True) as response:` and raises
#            there has a failed request: it was sent and answered, and its check failed.
# Seen:      a request whose check passes is counted, and so is one that calls response.failure(). A third one, whose
#            check raises a KeyError, is no request, no failure, and in no percentile. FastHttpUser does the same. So a
#            server that answers garbage under load has fewer requests and no failures, if the check is
#            `response.json()["id"]`.
# Steelyard: generators/locust_users.py has no such checks. A listener of locust's events judges each request by its
#            status.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile locust==2.47.0
"$folder/venv/bin/python" -I - <<'PYTHON'
import locust  # first, because it patches the standard library for gevent
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import threading

from locust.env import Environment


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()


def counted(kind: type[locust.User]) -> dict[str, tuple[int, int]]:
    """Return the requests and failures by path, after one request of each."""

    class User(kind):
        host = f"http://127.0.0.1:{server.server_address[1]}"

        @locust.task
        def unused(self) -> None:
            pass

    environment = Environment(user_classes=[User])
    environment.create_local_runner()  # it counts
    client = User(environment).client
    with client.get("/passes", catch_response=True) as response:
        assert response.json() == {}
    with client.get("/fails", catch_response=True) as response:
        response.failure("no id")
    try:
        with client.get("/raises", catch_response=True) as response:
            response.json()["id"]
    except KeyError:
        pass
    entries = environment.stats.entries.values()
    return {entry.name: (entry.num_requests, entry.num_failures) for entry in entries}


seen = {kind.__name__: counted(kind) for kind in (locust.HttpUser, locust.FastHttpUser)}
print(f"locust {locust.__version__}, requests and failures by path, one of each was sent: {seen}")
assert seen == dict.fromkeys(("HttpUser", "FastHttpUser"), {"/passes": (1, 0), "/fails": (1, 1)})
PYTHON
