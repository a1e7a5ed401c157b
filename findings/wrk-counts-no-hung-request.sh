#!/usr/bin/env bash
# wrk reports no error for requests that never get an answer: its --timeout counts late answers only.
#
# Versions:  wrk 4.1.0 (Debian 12, 4.1.0-3+b2)
# Expected:  "--timeout: record a timeout if a response is not received within this amount of time" (wrk's README).
#            Four connections whose requests hang are four timeouts.
# Seen:      a server answers four of eight requests and leaves the others without an answer. After 3 s at a timeout of
#            1 s, wrk prints four requests and no line of socket errors, and its 99th percentile is some milliseconds. A
#            request whose answer comes after 1.5 s is one timeout, and its latency is in no percentile. wrk compares
#            the time when an answer is complete (response_complete in wrk.c), and nothing looks at the others.
# Steelyard: docs/guides/load-lab.md says so: a server that hangs shows in wrk's throughput alone. The open loop counts
#            such a request as a timeout.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root wrk=4.1.0-3+b2 libluajit-5.1-2
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"

python3 -I - <<'PYTHON'
import asyncio
import re
from collections import Counter

received: Counter[str] = Counter()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            received[path] += 1
            if path == "/half" and received[path] % 2 == 0:
                await reader.read()  # until wrk hangs up
                return
            if path == "/late" and received[path] == 2:
                await asyncio.sleep(1.5)
            await asyncio.sleep(0.001)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def measured(port: int, path: str) -> tuple[int, str, float]:
    """Return wrk's requests, its line about errors, and its greatest latency in ms."""
    flags = ["--threads=1", "--connections=4", "--duration=3s", "--timeout=1s", "--latency"]
    wrk = await asyncio.create_subprocess_exec(
        "usr/bin/wrk", *flags, f"http://127.0.0.1:{port}{path}", stdout=asyncio.subprocess.PIPE
    )
    output = (await wrk.communicate())[0].decode()
    requests = int(re.search(r"([0-9]+) requests in", output)[1])
    errors = re.search(r"Socket errors: (.*)", output)
    value, unit = re.search(r"99%\s+([0-9.]+)(us|ms|s)", output).groups()
    return requests, errors[1] if errors else "none", float(value) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    half = await measured(port, "/half")
    late = await measured(port, "/late")
    server.close()
    print(f"{received['/half']} requests, 4 of them hang: wrk has {half[0]}, p99 {half[2]:.1f} ms, errors: {half[1]}")
    print(f"one answer after 1.5 s of {late[0]}: errors: {late[1]}")
    assert half[:2] == (4, "none")
    assert received["/half"] == 8
    assert half[2] < 900
    assert late[1].endswith("timeout 1")


asyncio.run(main())
PYTHON
