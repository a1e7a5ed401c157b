#!/usr/bin/env bash
# Memcached takes a value that was marked stale for a fresh one after an incr that makes it longer.
#
# Versions:  Memcached 1.6.18 (Debian 12, 1.6.18-1+deb12u1)
# Expected:  `md KEY I` marks a value as stale. Readers then get an X flag "to show the data is stale and needs to be
#            recached", and one of them W, the right to do so (protocol.txt). That ends when a client stores a new
#            value.
# Seen:      an `incr` from 5 to 6 leaves the mark: X W. An `incr` from 9 to 10 and an `append` make a new item, which
#            is fresh. It has neither X nor W, so no client recaches it.
# Steelyard: marks nothing as stale. Its only value that grows is the list of runs, by `append`.
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

memcached = socket.socket(socket.AF_UNIX)
memcached.connect("socket")


def ask(command: str) -> str:
    """Return the answer to a command; the answer to `mn` marks its end."""
    memcached.sendall(f"{command}\r\nmn\r\n".encode())
    answer = b""
    while not answer.endswith(b"MN\r\n"):
        answer += memcached.recv(65536)
    return answer.removesuffix(b"MN\r\n").decode().rstrip("\r\n")


def flags_after(value: int, change: str) -> str:
    """Mark a value as stale, change it, and return the flags with which it is read."""
    assert ask(f"set key 0 0 1\r\n{value}") == "STORED"
    assert ask("md key I T30") == "HD"
    ask(change)
    return " ".join(ask("mg key v").split("\r\n")[0].split()[2:])


print(ask("version"))
seen = {
    "no change": flags_after(5, "get key"),
    "incr 5 to 6": flags_after(5, "incr key 1"),
    "incr 9 to 10": flags_after(9, "incr key 1"),
    "append": flags_after(5, "append key 0 0 1\r\n0"),
}
print(f"flags of a stale value: {seen}")
assert seen == {"no change": "X W", "incr 5 to 6": "X W", "incr 9 to 10": "", "append": ""}
PYTHON
