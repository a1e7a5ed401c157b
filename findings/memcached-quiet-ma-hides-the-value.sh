#!/usr/bin/env bash
# Memcached's ma hides the value that was asked for if it is to be quiet.
#
# Versions:  Memcached 1.6.18 (Debian 12, 1.6.18-1+deb12u1)
# Expected:  in quiet mode (q) "a response that would start with HD will not be sent. Any other code ... will still be
#            returned"; `ma` has it "see details under mset", and with v its answer is "VA <size>" (protocol.txt). So
#            `ma KEY v q` answers with the new value, as `mg KEY v q` does.
# Seen:      it answers nothing, and the counter has been raised. `ma KEY v q` on a missing key answers NF. So in a
#            pipeline of quiet commands, each answer belongs to a counter that is missing.
# Steelyard: core/in_flight_messages.lua pipelines hundreds of `ma KEY v` without q, and `mn` after them.
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


print(ask("version"))
assert ask("set key 0 0 1\r\n5") == "STORED"
commands = ("ma key v", "ma key v q", "mg key v", "mg key v q", "ma none v q", "mg none v q")
seen = {command: ask(command) for command in commands}
for command, answer in seen.items():
    print(f"{command}: {answer!r}")
assert seen == {
    "ma key v": "VA 1\r\n6",
    "ma key v q": "",
    "mg key v": "VA 1\r\n7",
    "mg key v q": "VA 1\r\n7",
    "ma none v q": "NF",
    "mg none v q": "",
}
PYTHON
