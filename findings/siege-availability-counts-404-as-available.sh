#!/usr/bin/env bash
# siege reports 100 % availability and no failed transaction if each answer is a 404, and 0 % if each is a 500.
#
# Versions:  siege 4.0.7 (Debian 12, 4.0.7-1+b1)
# Expected:  "Availability: the percentage of socket connections successfully handled by the server. [...] This number
#            does not include 400 and 500 level server errors which are recorded in "Failed transactions"" (siege's
#            manual). "Transactions: the number of server hits."
# Seen:      ten requests with the answer 404 are ten transactions, none of them failed and none successful: a load test
#            of a wrong URL looks like a success. Ten with 500 are no transactions and ten failed ones, at an
#            availability of 0 %. Ten with a redirect are twenty transactions.
# Steelyard: docs/research/benchmarks.md compares with a paper that used siege. The load lab counts failures by status.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root siege=4.0.7-1+b1
dpkg -x siege_*.deb .
# siege makes its configuration with siege.config at its first run.
export PATH="$folder/usr/bin:$PATH"

HOME="$folder" python3 - <<'PYTHON'
import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAMES = ("transactions", "availability", "successful_transactions", "failed_transactions")


class Handler(BaseHTTPRequestHandler):
    """Answers /STATUS with that status, and a redirect to /200."""

    def do_GET(self) -> None:
        status = int(self.path[1:])
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/200")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()


def report(status: int) -> dict[str, float]:
    url = f"http://127.0.0.1:{server.server_address[1]}/{status}"
    command = ["siege", "--benchmark", "--concurrent=2", "--reps=5", "--quiet", "--json-output", url]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    output = ran.stdout[ran.stdout.index("{") : ran.stdout.rindex("}") + 1]
    return {name: value for name, value in json.loads(output).items() if name in NAMES}


seen = {status: report(status) for status in (200, 404, 500, 302)}
for status, figures in seen.items():
    print(f"siege 4.0.7, ten requests answered {status}: {figures}")
found = {status: [round(figures[name]) for name in NAMES] for status, figures in seen.items()}
assert found == {200: [10, 100, 10, 0], 404: [10, 100, 0, 0], 500: [0, 0, 0, 10], 302: [20, 100, 20, 0]}
PYTHON
