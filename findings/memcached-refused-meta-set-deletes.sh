#!/usr/bin/env bash
# Memcached's ms deletes the present value when the new one is too large, even if it was to add or to compare and swap.
#
# Versions:  Memcached 1.6.18 (Debian 12, 1.6.18-1+deb12u1)
# Expected:  `ms KEY SIZE ME` is "add": "LRU bump and return NS if item exists". `ms KEY SIZE C1` is "Similar to the
#            basic cas command, only store item if the supplied token matches" (protocol.txt). So neither changes a
#            key that exists with another token, as the classic commands do not.
# Seen:      both answer "SERVER_ERROR object too large for cache", and the key is gone. So it is after `ms` as append
#            (MA) and after the classic `set`. After the classic add, cas, replace and append, the value is still
#            there. `set` does so to leave no stale value, and process_mset_command() does it in each mode.
# Steelyard: its programs write tables by the classic `cas` and `add` (protocol/…/memcached_client.py), so a table
#            that a Memcached refuses leaves the last one. Samples, reports and heads of tables are written by `set`:
#            a refused one is gone, and the next one comes within seconds.
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

SIZE = 2_000_000  # bytes; the largest item has 1 MiB
memcached = socket.socket(socket.AF_UNIX)
memcached.connect("socket")


def ask(command: str) -> str:
    """Return the answer to a command; the answer to `mn` marks its end."""
    memcached.sendall(f"{command}\r\nmn\r\n".encode())
    answer = b""
    while not answer.endswith(b"MN\r\n"):
        answer += memcached.recv(65536)
    return answer.removesuffix(b"MN\r\n").decode().rstrip("\r\n")


def is_kept(command: str) -> bool:
    """Whether the present value of a key survives a command that is refused because its value is too large."""
    assert ask("set key 0 0 3\r\nold") == "STORED"
    answer = ask(f"{command}\r\n{'x' * SIZE}")
    assert answer == "SERVER_ERROR object too large for cache", answer
    return "old" in ask("get key")


print(ask("version"))
commands = {
    "ms, add": f"ms key {SIZE} ME",
    "ms, another token": f"ms key {SIZE} C1",
    "ms, append": f"ms key {SIZE} MA",
    "set": f"set key 0 0 {SIZE}",
    "add": f"add key 0 0 {SIZE}",
    "cas, another token": f"cas key 0 0 {SIZE} 1",
    "replace": f"replace key 0 0 {SIZE}",
    "append": f"append key 0 0 {SIZE}",
}
kept = {name: is_kept(command) for name, command in commands.items()}
for name, survives in kept.items():
    print(f"too large for {name}: the old value {'is still there' if survives else 'is gone'}")
assert [name for name, survives in kept.items() if survives] == ["add", "cas, another token", "replace", "append"]
PYTHON
