"""Commands to a Redis that is late: redis-py's own retries would send them again."""

import asyncio

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError
from steelyard_controller.store import redis_url
from steelyard_controller.store.redis_connection import RedisConnection


@pytest.mark.parametrize("url", ["redis://127.0.0.1:{}/0", "redis+cluster://127.0.0.1:{}"])
def test_a_script_that_is_late_is_sent_once(url: str) -> None:
    received = 0

    async def answer_no_script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        while sent := await reader.read(65536):
            if b"EVAL" in sent:
                received += 1
            elif b"CLUSTER" in sent:
                port = writer.get_extra_info("sockname")[1]
                writer.write(b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % port)
            else:
                hello = b"%1\r\n$5\r\nproto\r\n:3\r\n"
                writer.write(hello if b"HELLO" in sent else b"+OK\r\n" * sent.count(b"*"))
        writer.close()

    async def steps() -> None:
        server = await asyncio.start_server(answer_no_script, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        parsed = redis_url.parse(url.format(port))
        connection = RedisConnection(parsed, timeout_s=0.4, password=None, sentinel_password=None)
        with pytest.raises(RedisTimeoutError):
            await connection.run("return 1", ["key"], [])
        await connection.close()
        server.close()

    asyncio.run(steps())
    assert received == 1
