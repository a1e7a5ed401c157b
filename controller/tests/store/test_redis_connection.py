"""Commands to a Redis that is late, and to one whose replica is."""

import asyncio
from contextlib import nullcontext

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError
from steelyard_controller.store import redis_url
from steelyard_controller.store.redis_connection import NotReplicated, RedisConnection

from testing.waiting import PATIENCE_S


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
        connection = RedisConnection(
            parsed, prefix="steelyard", timeout_s=0.4, password=None, sentinel_password=None
        )
        with pytest.raises(RedisTimeoutError):
            await connection.run("return 1", ["key"], [])
        await connection.close()
        server.close()

    asyncio.run(steps())
    assert received == 1


@pytest.mark.parametrize(("answer", "is_refused"), [(b":0\r\n", False), (b":1\r\n", True)])
def test_a_late_replica_matters_only_to_a_script_that_wrote(answer: bytes, is_refused: bool) -> None:
    async def have_a_late_replica(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("sockname")[1]
        while sent := await reader.read(65536):
            if b"CLUSTER" in sent:
                writer.write(b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % port)
            elif b"ROLE" in sent:
                writer.write(b"*3\r\n$6\r\nmaster\r\n:9\r\n*1\r\n*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n0\r\n")
            elif b"EVAL" in sent:
                writer.write(answer + b":0\r\n")  # no replica has it
            else:
                hello = b"%1\r\n$5\r\nproto\r\n:3\r\n"
                writer.write(hello if b"HELLO" in sent else b"+OK\r\n" * sent.count(b"*"))
        writer.close()

    async def steps() -> None:
        server = await asyncio.start_server(have_a_late_replica, "127.0.0.1", 0)
        url = f"redis+cluster://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        parsed = redis_url.parse(url)
        connection = RedisConnection(
            parsed, prefix="{steelyard}", timeout_s=PATIENCE_S, password=None, sentinel_password=None
        )
        with pytest.raises(NotReplicated) if is_refused else nullcontext():
            assert await connection.run_on_replica("return 0", ["key"], [], is_written=bool) == 0
        await connection.close()
        server.close()

    asyncio.run(steps())
