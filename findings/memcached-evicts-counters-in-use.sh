#!/usr/bin/env bash
# Memcached evicts a counter that is in use: incr and ma do not count as accesses.
#
# Versions:  Memcached 1.6.18 (Debian 12, 1.6.18-1+deb12u1)
# Expected:  a full Memcached evicts what was not used for long. An item that is used all the time becomes "active"
#            and moves to the head of its queue (new_lru.txt). So a counter that is raised every few milliseconds
#            stays.
# Seen:      `mg KEY h` ("whether item has been hit before", protocol.txt) is 0 after any number of `incr` and `ma`.
#            While other items of this size fill the memory, a counter that is used after each 2,000 of them is
#            evicted with the first items. A value that is read as often by `get` or `mg` stays.
# Steelyard: the counters of `share_in_flight` are used by `ma` alone. A Memcached that evicts within seconds loses
#            them before their epoch of 10 s ends. docs/guides/nginx-many.md says what picks then miss.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root memcached=1.6.18-1+deb12u1 \
  libevent-2.1-7=2.1.12-stable-8+deb12u1 libsasl2-2=2.1.28+dfsg-10+deb12u1
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"
usr/bin/memcached -u "$(id -un)" -m 8 -s "$folder/socket" &
for _ in $(seq 50); do [ -S "$folder/socket" ] && break; sleep 0.1; done

python3 -I - <<'PYTHON'
import socket

ZERO = 4294967296  # of the length of the other values' keys, so that all items are of one size class
ROUNDS, ITEMS = 60, 2000
USES = {
    "incr": "incr by_incr 1",
    "ma": "ma by_ma D1 v",
    "ma D0": "ma by_ma_0 D0 v",
    "get": "get by_get",
    "mg": "mg by_mg v",
}
MISSES = ("NOT_FOUND", "NF", "EN", "")
memcached = socket.socket(socket.AF_UNIX)
memcached.connect("socket")


def ask(command: str) -> str:
    """Return the answer to a command; the answer to `mn` marks its end."""
    memcached.sendall(f"{command}\r\nmn\r\n".encode())
    answer = b""
    while not answer.endswith(b"MN\r\n"):
        answer += memcached.recv(65536)
    return answer.removesuffix(b"MN\r\n").decode().rstrip("\r\n").removesuffix("END")


print(ask("version"))
for use in USES.values():
    assert ask(f"set {use.split()[1]} 0 0 10\r\n{ZERO}") == "STORED"
hits = {}
for name in ("incr", "ma", "get"):
    ask(USES[name])
    hits[name] = ask(f"mg {USES[name].split()[1]} h u")
print(f"hit before? {hits}")
lost_after: dict[str, int] = {}
for done in range(ITEMS, ROUNDS * ITEMS + 1, ITEMS):
    ask("\r\n".join(f"set fill_{done + i:06d} 0 0 10 noreply\r\n{ZERO}" for i in range(ITEMS)))
    for name, use in USES.items():
        if name not in lost_after and ask(use) in MISSES:
            lost_after[name] = done
print(f"of {ROUNDS * ITEMS} other items, evicted by the time that so many had come: {lost_after}")
assert hits == {"incr": "HD h0", "ma": "HD h0", "get": "HD h1"}
assert set(lost_after) == {"incr", "ma", "ma D0"}
PYTHON
