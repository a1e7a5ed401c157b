#!/usr/bin/env bash
# hey -n 100 -c 30 sends 90 requests.
#
# Versions:  hey 0.1.4 (Debian 12, 0.1.4-2+b4)
# Expected:  "-n  Number of requests to run" (hey's help), as with `ab -n 100 -c 30`, which sends 100.
# Seen:      each of the 30 workers sends 100 / 30 requests, rounded down. No line of the report says that it is 90:
#            only the number beside the status is. `hey -n 59 -c 30` sends 30.
# Steelyard: nothing leans on it: the load lab's own generator sends each request of its schedule.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root hey=0.1.4-2+b4 apache2-utils libapr1 libaprutil1
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"

python3 -I - <<'PYTHON'
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

received = 0
counting = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        global received
        with counting:
            received += 1
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()


def sent(program: str, requests: int) -> int:
    global received
    received = 0
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    command = [f"usr/bin/{program}", "-n", str(requests), "-c", "30", url]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return received


seen = {(program, number): sent(program, number) for program in ("hey", "ab") for number in (100, 59)}
print("requests received with -c 30: " + "; ".join(f"{name} -n {n}: {count}" for (name, n), count in seen.items()))
assert seen == {("hey", 100): 90, ("hey", 59): 30, ("ab", 100): 100, ("ab", 59): 59}
PYTHON
