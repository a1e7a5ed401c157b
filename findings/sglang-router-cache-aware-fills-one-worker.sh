#!/usr/bin/env bash
# sglang-router and vllm-router send all new prompts to one of two idle workers, with their default policy cache_aware.
#
# Versions:  sglang-router 0.3.2 and vllm-router 0.1.17 (PyPI)
# Expected:  a prompt that matches no worker's prefix tree goes to the worker with the smallest tree (the
#            policy's description in cache_aware.rs). So prompts fill the caches of all workers. GPUStack's reference
#            on vllm-router says the same: "below it, the replica with the smallest record".
# Seen:      20 different prompts, one after the other, are 20 and 0. The policy takes the worker with the fewest
#            requests in flight. If all have as many, it takes the same one each time. round_robin has 10 and 10. So
#            the caches of all engines but one stay empty while requests do not overlap.
# Steelyard: docs/research/inference.md names it beside the comparison. Steelyard's own pickers break ties in turn or at
#            random.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-compile \
  --target packages sglang-router==0.3.2 vllm-router==0.1.17 2>/dev/null
export PYTHONPATH="$folder/packages"

python3 -s - <<'PYTHON'
import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROMPTS = 20
received: Counter[int] = Counter()


class Worker(BaseHTTPRequestHandler):
    """An engine as far as the routers ask for it: its health, its model, and completions."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.command == "POST":
            self.rfile.read(int(self.headers["Content-Length"]))
            received[self.server.server_address[1]] += self.path == "/v1/completions"
        named = {"model_path": "m", "served_model_name": "m", "is_generation": True, "data": [{"id": "m"}]}
        body = json.dumps({**named, "object": "text_completion", "choices": [], "model": "m"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def complete(port: int, prompt: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        body = json.dumps({"model": "m", "prompt": prompt})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def prompts_by_worker(module: str, policy: str) -> list[int]:
    """Return the prompts that each of two new workers gets."""
    workers = [ThreadingHTTPServer(("127.0.0.1", 0), Worker) for _ in range(2)]
    for worker in workers:
        threading.Thread(target=worker.serve_forever, daemon=True).start()
    ports = [worker.server_address[1] for worker in workers]
    port = free_port()
    flags = ["--host", "127.0.0.1", "--port", str(port), "--policy", policy, "--prometheus-port", str(free_port())]
    urls = [f"http://127.0.0.1:{each}" for each in ports]
    with open("router.log", "wb") as log:
        router = subprocess.Popen(
            [sys.executable, "-s", "-m", module, *flags, "--worker-urls", *urls], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        while complete(port, "are you there?") != 200:
            assert router.poll() is None
            time.sleep(0.2)
        time.sleep(1)  # both workers are known by now
        received.clear()
        drawn = random.Random(1)
        for _ in range(PROMPTS):
            assert complete(port, " ".join(drawn.choices("abcdefghij", k=200))) == 200
        return sorted(received[each] for each in ports)
    finally:
        router.terminate()
        router.wait()
        for worker in workers:
            worker.shutdown()


for name, module in (
    ("sglang-router 0.3.2", "sglang_router.launch_router"),
    ("vllm-router 0.1.17", "vllm_router.launch_router"),
):
    seen = {policy: prompts_by_worker(module, policy) for policy in ("cache_aware", "round_robin")}
    print(f"{name}: {PROMPTS} new prompts, one after the other, at two workers: {seen}")
    assert seen == {"cache_aware": [0, PROMPTS], "round_robin": [PROMPTS // 2] * 2}
PYTHON
