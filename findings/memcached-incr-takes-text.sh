#!/usr/bin/env bash
# Memcached's incr takes a text that begins with a number for that number, and overwrites the text.
#
# Versions:  Memcached 1.6.18 (Debian 12, 1.6.18-1+deb12u1)
# Expected:  "The data for the item is treated as decimal representation of a 64-bit unsigned integer. If the current
#            data value does not conform to such a representation, the incr/decr commands return an error"
#            (protocol.txt). So `12 apples` gives an error and stays.
# Seen:      `incr` makes it 13: the value is now "13       ", padded with spaces to the old length. The commands incr
#            and ma accept any text of at most 20 bytes in which white space follows the digits. They refuse `apples`,
#            `1.5`, `0x5` and `-5`.
# Steelyard: the counters of `share_in_flight` are read by `ma` alone, so a value of this kind counts as a number.
#            docs/guides/security.md bounds what a forged number does.
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


def after_incr(text: str) -> tuple[str, str]:
    ask(f"set key 0 0 {len(text)}\r\n{text}")
    answer = ask("incr key 1")
    return answer.split(" ")[0], ask("get key").split("\r\n")[1]


print(ask("version"))
seen = {text: after_incr(text) for text in ("12 apples", "12", "apples", "1.5", "0x5", "-5")}
for text, (answer, value) in seen.items():
    print(f"incr of {text!r}: {answer}, then the value is {value!r}")
assert seen["12"] == ("13", "13")
assert seen["12 apples"] == ("13", "13       ")
for text in ("apples", "1.5", "0x5", "-5"):
    assert seen[text] == ("CLIENT_ERROR", text), text
PYTHON
