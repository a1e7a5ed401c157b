"""One Memcached, through every kind of trouble, in bounded time."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from pymemcache.client.base import Client
from steelyard_protocol.dns_lookup import DnsLookup
from steelyard_protocol.memcached_client import (
    BYTES_AT_ONCE,
    KEYS_AT_ONCE,
    MemcachedClient,
    Seen,
    Unavailable,
    _Connection,
)
from steelyard_protocol.setting_values import Address

from testing.daemons import Daemon, free_port
from testing.hostile_servers import answering, dripping, unreachable
from testing.memcached_ttl import ttl_s
from testing.waiting import wait_until

# Long enough for a loaded machine, if a server is to answer.
PATIENT_S = 10.0

# If none is to answer.
SHORT_S = 0.1

CALLS: dict[str, Callable[[MemcachedClient], object]] = {
    "get": lambda client: client.get_many(["a", "b"]),
    "look": lambda client: client.seen(["a"]),
    "put": lambda client: client.put("a", b"1", ttl_s=60),
    "put many": lambda client: client.put_many({"a": b"1", "b": b"2"}, ttl_s=60),
    "append": lambda client: client.append("a", b"1", ttl_s=60),
    "add": lambda client: client.replace_many({"a": b"1"}, {}, ttl_s=60),
    "replace": lambda client: client.replace_many({"a": b"1"}, {"a": Seen(b"0", b"7")}, ttl_s=60),
}


def test_a_key_is_checked_with_and_without_a_prefix() -> None:
    # pymemcache 4.0 gives the prefix, and 3.5 does not.
    connection = _Connection(("127.0.0.1", 1))
    assert (connection.check_key("a"), connection.check_key("a", b"b:")) == (b"a", b"b:a")


every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@contextlib.contextmanager
def client_of(
    port: int,
    *,
    timeout_s: float = PATIENT_S,
    lookup: Callable[[float], list[Address]] | None = None,
) -> Iterator[MemcachedClient]:
    client = MemcachedClient(("127.0.0.1", port), timeout_s=timeout_s, lookup=lookup)
    yield client
    client.close()


def failure(call: Callable[[MemcachedClient], object], client: MemcachedClient) -> str:
    with pytest.raises(Unavailable) as raised:
        call(client)
    return str(raised.value)


@pytest.mark.integration
def test_a_value_is_stored_with_its_time_to_live(memcached: Daemon) -> None:
    with client_of(memcached.port) as client:
        client.put("a", b"1", ttl_s=60)
    other = Client(("127.0.0.1", memcached.port), connect_timeout=PATIENT_S, timeout=PATIENT_S)
    assert other.get("a") == b"1"
    other.close()
    assert 0 < ttl_s(memcached.port, "a") <= 60


@pytest.mark.integration
def test_what_is_appended_expires_with_what_it_was_appended_to(memcached: Daemon) -> None:
    with client_of(memcached.port) as client:
        client.append("a", b"1", ttl_s=60)
        client.append("a", b"2", ttl_s=3600)
        assert client.get_many(["a"]) == {"a": b"12"}
    assert 0 < ttl_s(memcached.port, "a") <= 60


@pytest.mark.integration
def test_a_value_is_replaced_only_while_it_is_the_one_that_was_seen(memcached: Daemon) -> None:
    with client_of(memcached.port) as client:
        assert client.replace_many({"a": b"1"}, {}, ttl_s=60) == {"a": True}
        assert client.replace_many({"a": b"2", "b": b"2"}, {}, ttl_s=60) == {"a": False, "b": True}
        seen = client.seen(["a", "b", "absent"])
        assert client.replace_many({"a": b"3"}, seen, ttl_s=60) == {"a": True}
        assert client.replace_many({"a": b"4", "b": b"4", "c": b""}, seen, ttl_s=60) == {
            "a": False, "b": True, "c": True
        }  # fmt: skip
        client.put("b", b"5", ttl_s=-1)
        assert client.replace_many({"b": b"6"}, seen, ttl_s=60) == {"b": False}
        assert client.replace_many({}, seen, ttl_s=60) == {}
        assert client.get_many(["a", "b", "c", "absent"]) == {"a": b"3", "c": b""}


@pytest.mark.integration
def test_a_value_that_the_server_does_not_take_says_why_and_stops_no_other(memcached: Daemon) -> None:
    with client_of(memcached.port) as client:
        put = client.replace_many({"a": b"1", "b": bytes(2**21), "c": b"3"}, {}, ttl_s=60)
        assert put == {"a": True, "b": "object too large for cache", "c": True}
        assert client.get_many(["a", "b", "c"]) == {"a": b"1", "c": b"3"}


@pytest.mark.integration
def test_more_keys_than_go_into_one_question_are_all_stored_and_found(memcached: Daemon) -> None:
    keys = [f"key-{n}" for n in range(2 * KEYS_AT_ONCE + 1)]
    with client_of(memcached.port) as client:
        client.put_many({key: key.encode() for key in keys}, ttl_s=60)
        assert client.get_many([*keys, "absent"]) == {key: key.encode() for key in keys}
        assert {key: seen.value for key, seen in client.seen(keys).items()} == client.get_many(keys)
        assert client.get_many([]) == {}


@pytest.mark.integration
def test_what_the_check_raises_ends_the_call_and_nothing_is_written(memcached: Daemon) -> None:
    class NotTheLeader(Exception):
        pass

    def refuse() -> None:
        raise NotTheLeader

    with client_of(memcached.port) as client:
        with pytest.raises(NotTheLeader):
            client.replace_many({"a": b"1"}, {}, ttl_s=60, check=refuse)
        assert client.get_many(["a"]) == {}


class NotTheLeader(Exception):
    pass


@pytest.mark.integration
@pytest.mark.parametrize(
    ("count", "each"), [(KEYS_AT_ONCE, 1), (2, BYTES_AT_ONCE // 2 + 1)], ids=["keys", "bytes"]
)
def test_many_values_are_written_part_by_part_and_the_check_is_asked_before_each(
    memcached: Daemon, count: int, each: int
) -> None:
    values = {f"key-{n}": bytes(each) for n in range(count + 1)}
    asked: list[None] = []

    def check() -> None:
        asked.append(None)
        if len(asked) == 2:
            raise NotTheLeader

    with client_of(memcached.port) as client:
        with pytest.raises(NotTheLeader):
            client.replace_many(values, {}, ttl_s=60, check=check)
        first = client.get_many(list(values))
        assert 0 < len(first) < len(values)
        put = client.replace_many(values, {}, ttl_s=60, check=check)
        assert put == {key: key not in first for key in values}
        assert client.get_many(list(values)) == values


@pytest.mark.integration
def test_more_is_written_at_once_than_the_buffers_of_a_connection_hold(memcached: Daemon) -> None:
    values = {f"key-{n}": bytes(2000) for n in range(10_000)}
    with client_of(memcached.port) as client:
        assert set(client.replace_many(values, {}, ttl_s=60).values()) == {True}


@pytest.mark.integration
def test_a_server_that_does_not_read_is_left_at_the_deadline() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        client_of(silent.getsockname()[1], timeout_s=SHORT_S) as client,
    ):
        huge = {"a": bytes(2**25)}
        assert failure(lambda client: client.replace_many(huge, {}, ttl_s=60), client) == "timed out"


THREE = {"a": b"1", "b": b"2", "c": b"3"}


@pytest.mark.integration
def test_a_server_that_has_no_room_for_one_of_many_values_says_so_of_that_one() -> None:
    answer = b"STORED\r\nSERVER_ERROR out of memory storing object\r\nEXISTS\r\n"
    with answering(answer) as port, client_of(port) as client:
        assert client.replace_many(THREE, {}, ttl_s=60) == {
            "a": True, "b": "out of memory storing object", "c": False
        }  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"STORED\r\nSTORED\r\n", "timed out"),
        (b"STORED\r\nSTORED\r\nSTORED", "timed out"),
        (b"STORED\r\n" * 4, "more answers than questions"),
        (b"STORED\r\n" * 3 + b"S", "more answers than questions"),
        (b"STORED\r\nCLIENT_ERROR bad\r\nSTORED\r\n", "CLIENT_ERROR bad"),
        (b"STORED\r\nVALUE a 0 1\r\nSTORED\r\n", "VALUE a 0 1"),
    ],
    ids=["too few", "not whole", "too many", "more than whole", "refused", "garbage"],
)
def test_where_not_every_value_has_its_answer_none_is_taken_for_stored(answer: bytes, why: str) -> None:
    with answering(answer) as port, client_of(port, timeout_s=0.5) as client:
        assert failure(lambda client: client.replace_many(THREE, {}, ttl_s=60), client) == why


@pytest.mark.integration
def test_a_key_that_would_be_a_command_is_refused(memcached: Daemon) -> None:
    with client_of(memcached.port) as client:
        evil = {"a 0 60 1\r\n1\r\nflush_all\r\nadd b": b"1"}
        assert failure(lambda client: client.replace_many(evil, {}, ttl_s=60), client)
        assert client.get_many(["a", "b"]) == {}


@pytest.mark.integration
@every_call
def test_a_server_that_was_restarted_meanwhile_costs_no_call(
    memcached: Daemon, call: Callable[[MemcachedClient], object]
) -> None:
    with client_of(memcached.port) as client:
        client.get_many(["a"])
        memcached.kill()
        memcached.start()
        call(client)


@pytest.mark.integration
@every_call
def test_a_server_that_refuses_is_unavailable(
    memcached: Daemon, call: Callable[[MemcachedClient], object]
) -> None:
    memcached.kill()
    with client_of(memcached.port) as client:
        assert failure(call, client) == "[Errno 111] Connection refused"
        memcached.start()
        call(client)


@pytest.mark.integration
def test_a_full_memcached_is_a_failure_that_says_so() -> None:
    with answering(b"SERVER_ERROR out of memory storing object\r\n") as port, client_of(port) as client:
        assert failure(CALLS["put"], client) == "out of memory storing object"


@pytest.mark.integration
def test_a_memcached_that_does_not_store_is_a_failure() -> None:
    with answering(b"NOT_STORED\r\n") as port, client_of(port) as client:
        assert failure(CALLS["put"], client) == "it did not store the value"
    with answering(b"STORED\r\nNOT_STORED\r\n") as port, client_of(port) as client:
        assert failure(CALLS["put many"], client) == "it did not store every value"


@pytest.mark.integration
@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n", b"\r\n", b"CLIENT_ERROR bad\r\n", b"VALUE a 0 -1\r\n\r\nEND\r\n", b"VALUE\r\nEND\r\n",
        b"VALUE b 0 x\r\n", b"VALUE c 0 1 1\r\n1\r\nEND\r\n", b"HTTP/1.1 400\r\n\r\n", b"\xff\r\n",
        b"VALUE a 0 3\r\nabc\r\nVALUE a 0 -17\r\nEND\r\n",  # back to the first line
    ],
)  # fmt: skip
@every_call
def test_whatever_else_it_says_is_a_failure(answer: bytes, call: Callable[[MemcachedClient], object]) -> None:
    # Twice: `put many` waits for two answers.
    with answering(answer * 2) as port, client_of(port) as client:
        assert failure(call, client)


@pytest.mark.integration
@every_call
def test_a_server_that_never_answers_costs_the_time_of_one_call(
    call: Callable[[MemcachedClient], object],
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        client_of(silent.getsockname()[1], timeout_s=SHORT_S) as client,
    ):
        assert failure(call, client) == "timed out"


@pytest.mark.integration
@every_call
def test_a_server_that_sends_a_byte_now_and_then_is_left_at_the_deadline(
    call: Callable[[MemcachedClient], object],
) -> None:
    with dripping() as server, client_of(server.port, timeout_s=0.5) as client:
        assert failure(call, client) == "timed out"
        wait_until(lambda: server.is_dripping)  # its thread may be later than the time-out


@every_call
def test_a_name_whose_resolver_hangs_is_left_at_the_deadline(
    call: Callable[[MemcachedClient], object],
) -> None:
    released = threading.Event()

    def hang(_host: str, _port: int) -> list[Address]:
        released.wait(PATIENT_S)
        return []

    # On a busy machine a shorter time may be over before the look-up begins.
    with client_of(1, timeout_s=0.5, lookup=DnsLookup(("memcached", 1), hang)) as client:
        assert failure(call, client) == "the resolver has not answered"
        assert not released.is_set()
    released.set()


@pytest.mark.integration
@every_call
def test_an_address_that_refuses_is_passed_over_in_the_same_call(
    memcached: Daemon, call: Callable[[MemcachedClient], object]
) -> None:
    addresses = [("127.0.0.1", free_port()), ("::1", free_port()), ("127.0.0.1", memcached.port)]
    with client_of(memcached.port, lookup=lambda _timeout_s: addresses) as client:
        call(client)


@pytest.mark.integration
def test_an_address_that_does_not_answer_takes_its_share_of_the_time_and_no_more(memcached: Daemon) -> None:
    with unreachable() as port:
        addresses = [("127.0.0.1", port), ("127.0.0.1", memcached.port)]
        with client_of(port, timeout_s=2.0, lookup=lambda _timeout_s: addresses) as client:
            client.put("a", b"1", ttl_s=60)


@pytest.mark.integration
def test_an_address_that_takes_connections_and_never_answers_is_the_last_at_the_next_call(
    memcached: Daemon,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = [("127.0.0.1", silent.getsockname()[1]), ("127.0.0.1", memcached.port)]
        with client_of(1, timeout_s=1.0, lookup=lambda _timeout_s: addresses) as client:
            assert failure(CALLS["get"], client) == "timed out"
            CALLS["get"](client)


@pytest.mark.integration
def test_a_call_that_waits_for_another_one_ends_at_its_own_deadline() -> None:
    with dripping() as server, client_of(server.port, timeout_s=0.5) as client:
        failures: list[str] = []
        threads = [
            threading.Thread(target=lambda: failures.append(failure(CALLS["get"], client))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == ["timed out"] * 4
        wait_until(lambda: server.is_dripping)  # its thread may be later than the time-out
