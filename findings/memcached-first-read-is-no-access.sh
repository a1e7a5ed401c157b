#!/usr/bin/env bash
# Memcached's time since the last access leaves out the first read of a value.
#
# Versions:  Memcached 1.6.18 (Debian 12, 1.6.18-1+deb12u1)
# Expected:  `mg KEY l` returns the "time since item was last accessed in seconds", "before the command was processed"
#            (protocol.txt). Only the flag u "avoids ... updating its last access time". So a second after a `get`, it
#            is 1.
# Seen:      a value is stored, read for the first time 3 s later, and asked for a second after that: l is 4, the time
#            since it was stored. From the second read on, l is 1. The first read only marks the item as read. An
#            `incr` sets the time, although it does not count as a hit.
# Steelyard: reads no such time. An operator who looks for unused keys by `l`, or by `la` of `lru_crawler metadump`,
#            sees a table that was read once as unused since it was written.
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
import time

memcached = socket.socket(socket.AF_UNIX)
memcached.connect("socket")


def ask(command: str) -> str:
    """Return the answer to a command; the answer to `mn` marks its end."""
    memcached.sendall(f"{command}\r\nmn\r\n".encode())
    answer = b""
    while not answer.endswith(b"MN\r\n"):
        answer += memcached.recv(65536)
    return answer.removesuffix(b"MN\r\n").decode().rstrip("\r\n")


def since_last_access(key: str) -> int:
    return int(ask(f"mg {key} l u").removeprefix("HD l"))


print(ask("version"))
for key in ("once", "twice", "raised"):
    assert ask(f"set {key} 0 0 1\r\n1") == "STORED"
ask("get twice")
time.sleep(3)
for command in ("get once", "get twice", "incr raised 1"):
    ask(command)
time.sleep(1)
once, twice, raised = (since_last_access(key) for key in ("once", "twice", "raised"))
print(f"seconds since the last access, 1 s after it: {once} after one read, {twice} after two, {raised} after incr")
assert once >= 3  # Memcached's clock has seconds
assert twice <= 2
assert raised <= 2
PYTHON
