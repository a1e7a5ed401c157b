"""Delivery to one Memcached, through every kind of trouble, in bounded time."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pymemcache.client.base import Client
from steelyard_agent import store
from steelyard_agent.flag_values import Address
from steelyard_agent.store import Store

from conftest import Daemon


class Clock:
    """A clock that is set by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def shelf_at(
    port: int,
    *,
    clock: Callable[[], float] = time.monotonic,
    put_s: float = 5.0,
    lookup: Callable[[float], list[Address]] | None = None,
) -> Store:
    return Store(("127.0.0.1", port), ttl_s=2, put_s=put_s, clock=clock, random=lambda: 1.0, lookup=lookup)


@contextmanager
def server_that(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Listen, and do with every connection what is asked for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        serve(connection)
                    except OSError:
                        continue

        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def says(answer: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        while connection.recv(4096):
            connection.sendall(answer)

    return serve


@pytest.mark.integration
def test_a_value_is_stored_with_its_time_to_live(memcached: Daemon) -> None:
    shelf = shelf_at(memcached.port)
    assert shelf.put("a", b"1") is None
    shelf.close()
    client = Client(("127.0.0.1", memcached.port), connect_timeout=1, timeout=1)
    assert client.get("a") == b"1"
    assert client.raw_command(b"mg a t").rstrip() in {b"HD t2", b"HD t1"}
    client.close()


@pytest.mark.integration
def test_a_store_tries_at_once_and_then_after_pauses_that_double(memcached: Daemon) -> None:
    clock = Clock()
    memcached.kill()
    shelf = shelf_at(memcached.port, clock=clock)
    refused = shelf.put("a", b"1")
    assert refused == "[Errno 111] Connection refused"
    assert shelf.put("a", b"1") == refused  # a second try is due at once, a third half a second later
    memcached.start()
    clock.now_s = 0.4
    assert shelf.put("a", b"1") == refused
    clock.now_s = 0.5
    assert shelf.put("a", b"1") is None
    shelf.close()


@pytest.mark.integration
def test_a_memcached_that_was_restarted_meanwhile_costs_no_sample(memcached: Daemon) -> None:
    shelf = shelf_at(memcached.port)
    assert shelf.put("a", b"1") is None
    memcached.kill()
    memcached.start()
    assert shelf.put("a", b"2") is None
    shelf.close()


@pytest.mark.integration
def test_a_full_memcached_is_a_failure_that_says_so() -> None:
    with server_that(says(b"SERVER_ERROR out of memory storing object\r\n")) as port:
        shelf = shelf_at(port)
        assert shelf.put("a", b"1") == "out of memory storing object"
        shelf.close()


@pytest.mark.integration
def test_a_memcached_that_does_not_store_is_a_failure() -> None:
    with server_that(says(b"NOT_STORED\r\n")) as port:
        shelf = shelf_at(port)
        assert shelf.put("a", b"1") == "it did not store the value"
        shelf.close()


@pytest.mark.integration
@pytest.mark.parametrize("answer", [b"garbage\r\n", b"\r\n", b"CLIENT_ERROR bad\r\n"])
def test_whatever_else_it_says_is_a_failure_and_never_raises(answer: bytes) -> None:
    with server_that(says(answer)) as port:
        shelf = shelf_at(port)
        assert shelf.put("a", b"1") is not None
        shelf.close()


@pytest.mark.integration
def test_a_memcached_that_never_answers_costs_no_more_than_the_time_for_a_put() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        shelf = shelf_at(silent.getsockname()[1], put_s=0.05)
        assert shelf.put("a", b"1") == "timed out"


@pytest.mark.integration
def test_a_memcached_that_answers_a_byte_now_and_then_is_not_listened_to_for_ever() -> None:
    def drip(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"S")
            time.sleep(0.01)

    with server_that(drip) as port:
        shelf = shelf_at(port, put_s=0.1)
        assert shelf.put("a", b"1") == "timed out"
        shelf.close()


def test_a_name_that_the_resolver_has_no_answer_for_is_a_failure() -> None:
    def unanswered(_timeout_s: float) -> list[Address]:
        raise TimeoutError("the resolver has not answered")

    assert shelf_at(1, lookup=unanswered).put("a", b"1") == "the resolver has not answered"


@pytest.mark.integration
def test_a_name_with_two_addresses_is_tried_at_each_in_its_turn(memcached: Daemon) -> None:
    def two(_timeout_s: float) -> list[Address]:
        return [("::1", memcached.port), ("127.0.0.1", memcached.port)]

    shelf = shelf_at(memcached.port, lookup=two)
    assert shelf.put("a", b"1") is not None
    assert shelf.put("a", b"1") is None
    shelf.close()


@pytest.mark.parametrize(
    ("interval_s", "ttl_s"), [(0.1, 2), (0.5, 2), (0.7, 3), (1.0, 3), (1.1, 4), (10.0, 30)]
)
def test_a_sample_lives_three_intervals_in_whole_seconds(interval_s: float, ttl_s: int) -> None:
    assert store.ttl_s(interval_s) == ttl_s


def test_a_put_to_every_server_fits_into_half_an_interval() -> None:
    assert store.put_s(1.0, 1) == 0.25
    assert store.put_s(60.0, 2) == 0.25
    assert 5 * store.put_s(0.1, 5) <= 0.05 + 1e-9
