#!/usr/bin/env bash
# Memcached's statistic cmd_meta counts the debugging command me, and none of the meta commands.
#
# Versions:  Memcached 1.6.18 (Debian 12, 1.6.18-1+deb12u1)
# Expected:  `stats` has cmd_get, cmd_set, cmd_flush, cmd_touch and cmd_meta, each the number of commands of a kind.
#            So mg, ms, ma, md and mn, the "Meta Commands" of protocol.txt, raise cmd_meta.
# Seen:      none of them does: mg counts as cmd_get, ms as cmd_set, ma as incr_hits, md as delete_hits, and mn as
#            nothing. `me`, which prints the state of an item for people, raises cmd_meta.
# Steelyard: an operator sees the load of `share_in_flight` not in cmd_meta, but in incr_hits and decr_hits.
#            docs/guides/nginx-many.md says so.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root memcached=1.6.18-1+deb12u1 \
  libevent-2.1-7=2.1.12-stable-8+deb12u1 libsasl2-2=2.1.28+dfsg-10+deb12u1
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"
usr/bin/memcached -u "$(id -un)" -s "$folder/socket" &
for _ in $(seq 50); do [ -S "$folder/socket" ] && break; sleep 0.1; done

python3 -I - <<'PYTHON'
import socket

COUNTERS = ("cmd_meta", "cmd_get", "cmd_set", "cmd_touch", "incr_hits", "decr_hits", "delete_hits")
memcached = socket.socket(socket.AF_UNIX)
memcached.connect("socket")


def ask(command: str) -> str:
    """Return the answer to a command; the answer to `mn` marks its end."""
    memcached.sendall(f"{command}\r\nmn\r\n".encode())
    answer = b""
    while not answer.endswith(b"MN\r\n"):
        answer += memcached.recv(65536)
    return answer.removesuffix(b"MN\r\n").decode().rstrip("\r\n")


def counters() -> dict[str, int]:
    rows = [line.split() for line in ask("stats").split("\r\n") if line.startswith("STAT ")]
    return {name: int(value) for _, name, value in rows if name in COUNTERS}


def raised_by(command: str) -> list[str]:
    before = counters()
    ask(command)
    return [name for name, value in counters().items() if value > before[name]]


print(ask("version"))
commands = ("ms key 1\r\n5", "mg key v", "ma key", "me key", "md key", "mn")
seen = {command.split("\r\n")[0]: raised_by(command) for command in commands}
print(f"counters that a command raises: {seen}")
assert seen == {
    "ms key 1": ["cmd_set"],
    "mg key v": ["cmd_get"],
    "ma key": ["incr_hits"],
    "me key": ["cmd_meta"],
    "md key": ["delete_hits"],
    "mn": [],
}
PYTHON
