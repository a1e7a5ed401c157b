"""Delivery to one Memcached, and how long things may take."""

import logging
import socket

import pytest
from steelyard_agent import store
from steelyard_agent.store import Store

from conftest import Daemon


class Clock:
    """A clock that is set by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.integration
def test_a_store_tries_at_once_and_then_after_pauses_that_double(
    memcached: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    memcached.kill()
    shelf = Store(("127.0.0.1", memcached.port), ttl_s=2, timeout_s=0.25, clock=clock, random=lambda: 1.0)
    assert not shelf.put("a", b"1")  # a second try is due at once, a third half a second later
    assert not shelf.put("a", b"1")
    memcached.start()
    clock.now_s = 0.4
    assert not shelf.put("a", b"1")
    clock.now_s = 0.5
    assert shelf.put("a", b"1")
    shelf.close()
    assert [entry.getMessage().split(" ", 3)[3].split(" (")[0] for entry in caplog.records] == [
        "takes no samples",
        "is back: samples arrive again",
    ]


@pytest.mark.integration
def test_a_memcached_that_never_answers_costs_no_more_than_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        shelf = Store(silent.getsockname(), ttl_s=2, timeout_s=0.05, clock=Clock(), random=lambda: 1.0)
        assert not shelf.put("a", b"1")


@pytest.mark.integration
@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 300])
def test_a_host_that_cannot_be_found_is_a_failure_not_an_error(host: str) -> None:
    assert not Store((host, 1), ttl_s=2, timeout_s=0.05, clock=Clock(), random=lambda: 1.0).put("a", b"1")


@pytest.mark.parametrize(
    ("interval_s", "ttl_s"), [(0.1, 2), (0.5, 2), (0.7, 3), (1.0, 3), (1.1, 4), (10.0, 30)]
)
def test_a_sample_lives_three_intervals_in_whole_seconds(interval_s: float, ttl_s: int) -> None:
    assert store.ttl_s(interval_s) == ttl_s


def test_all_servers_timeouts_fit_into_an_interval() -> None:
    assert store.timeout_s(1.0, 1) == 0.25
    assert 2 * 3 * store.timeout_s(0.1, 3) < 0.1
