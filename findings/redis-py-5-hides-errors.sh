#!/usr/bin/env bash
# redis-py 5 has no class for a cluster's redirect, and 5.0.1 does not say why a connection failed.
#
# Versions:  redis 5.0.1, 5.3.1 and 6.4.0 (PyPI), Python 3.11
# Expected:  `-MOVED 9189 HOST:PORT`, the answer of a cluster's node that has not the key, raises MovedError, which
#            redis.exceptions has in all of them. A refused connection is reported with the system's words.
# Seen:      in a plain `redis.asyncio.Redis`, 5.0.1 and 5.3.1 raise ResponseError("MOVED ..."): the class is only in
#            the parser of the cluster client. 6.4.0 raises MovedError. 5.0.1 says "Error 111 connecting to HOST. 111."
#            (`_error_message` has `exception.args[0]` twice).
# Steelyard: store/redis_errors.py knows redirects by their words, too, and adds the reason.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 5.0.1 5.3.1 6.4.0; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "redis==$version"
    "$folder/$version/bin/python" -I - <<'PYTHON'
import asyncio

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff


async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # A command is one write; the client's own ones at the start (CLIENT SETINFO) are answered alike.
    while data := await reader.read(65536):
        for _ in range(data.count(b"*")):
            writer.write(b"-MOVED 9189 127.0.0.1:7001\r\n" if b"GET" in data else b"+OK\r\n")
    writer.close()


async def error_of(port: int) -> Exception:
    client = redis.asyncio.Redis(host="127.0.0.1", port=port, retry=Retry(NoBackoff(), 0))
    try:
        await client.get("a")
    except redis.RedisError as error:
        return error
    finally:
        await client.aclose()
    raise AssertionError("no error")


async def main() -> None:
    server = await asyncio.start_server(node, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    redirect = await error_of(port)
    server.close()
    refused = await error_of(port)
    print(f"redis {redis.__version__}: {type(redirect).__name__}({str(redirect)!r}); {refused}")
    is_old = redis.__version__.startswith("5.")
    assert (type(redirect).__name__ == "ResponseError") is is_old, "another class"
    assert ("Connect call failed" not in str(refused)) is (redis.__version__ == "5.0.1"), "another text"


asyncio.run(main())
PYTHON
done
