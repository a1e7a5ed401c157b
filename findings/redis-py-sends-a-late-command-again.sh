#!/usr/bin/env bash
# redis-py sends a command that timed out ten more times, also if retry_on_timeout is False.
#
# Versions:  redis 8.1.0 and 5.3.1 (PyPI)
# Expected:  a command that was sent and got no answer in time raises TimeoutError. `retry_on_timeout` is False by
#            default, and INCR is not idempotent. redis-py 5.3.1 sends it once.
# Seen:      8.1.0 sends INCR eleven times to a server that is slower than `socket_timeout`, and then raises
#            TimeoutError: each of the eleven may have counted. `retry_on_timeout=False` changes nothing. The default
#            `retry` has ten retries for errors of timeouts and connections alike, and the flag only adds to it.
# Steelyard: store/redis_connection.py gives `retry=Retry(NoBackoff(), 0)`, and the caller decides.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 8.1.0 5.3.1; do
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
    --target "$folder/$version" "redis==$version"
  PYTHONPATH="$folder/$version" python3 -s -W ignore - <<'PYTHON'
import asyncio
from collections import Counter

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

CASES = {
    "by default": {},
    "with retry_on_timeout=False": {"retry_on_timeout": False},
    "without retries": {"retry": Retry(NoBackoff(), 0)},
}
received: Counter[str] = Counter()


async def answer_no_incr(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the client's own commands, but not INCR."""
    while data := await reader.read(65536):
        if b"INCR" in data:
            received.update(case for case in CASES if case.encode() in data)
        else:
            writer.write(b"+OK\r\n" * data.count(b"*"))
    writer.close()


async def raise_one(port: int, case: str) -> None:
    # RESP2, because the server here knows no HELLO.
    client = redis.asyncio.Redis(host="127.0.0.1", port=port, protocol=2, socket_timeout=0.2, **CASES[case])
    try:
        await client.incr(case)
    except redis.exceptions.TimeoutError:
        return
    finally:
        await client.aclose()
    raise AssertionError("no error")


async def main() -> None:
    server = await asyncio.start_server(answer_no_incr, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(raise_one(port, case) for case in CASES))
    server.close()
    print(f"redis {redis.__version__}, times that one INCR is sent: {dict(received)}")
    assert [received[case] for case in CASES] == ([1, 1, 1] if redis.__version__.startswith("5.") else [11, 11, 1])


asyncio.run(main())
PYTHON
done
