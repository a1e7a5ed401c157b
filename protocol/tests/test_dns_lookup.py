"""Names and their addresses, in bounded time."""

import threading

import pytest
from steelyard_protocol.dns_lookup import DnsLookup
from steelyard_protocol.setting_values import Address

PATIENT_S = 20.0


def forbidden(host: str, port: int) -> list[Address]:
    raise AssertionError(f"{host}:{port} was looked up")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "fe80::1"])
def test_an_address_is_not_looked_up(host: str) -> None:
    assert DnsLookup((host, 1), forbidden)(0.0) == [(host, 1)]


def test_a_name_is_looked_up_at_every_connect() -> None:
    answers = iter([[("10.0.0.1", 1)], [("10.0.0.2", 1)]])
    lookup = DnsLookup(("memcached", 1), lambda _host, _port: next(answers))
    assert [lookup(PATIENT_S), lookup(PATIENT_S)] == [[("10.0.0.1", 1)], [("10.0.0.2", 1)]]


def test_a_late_answer_is_a_failure_now_and_used_later() -> None:
    asked: list[str] = []
    released, answered = threading.Event(), threading.Event()

    def slow(host: str, port: int) -> list[Address]:
        asked.append(host)
        released.wait(PATIENT_S)
        answered.set()
        return [("10.0.0.1", port)]

    lookup = DnsLookup(("memcached", 1), slow)
    for _ in range(3):
        with pytest.raises(TimeoutError, match="has not answered"):
            lookup(0.01)
    released.set()
    answered.wait(PATIENT_S)
    assert lookup(PATIENT_S) == [("10.0.0.1", 1)]
    assert asked == ["memcached"]


@pytest.mark.integration
@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 300])
def test_a_host_that_cannot_be_found_is_an_error_that_a_client_expects(host: str) -> None:
    with pytest.raises((OSError, UnicodeError)):
        DnsLookup((host, 1))(PATIENT_S)


def test_no_address_is_an_error() -> None:
    with pytest.raises(OSError, match="no address"):
        DnsLookup(("memcached", 1), lambda _host, _port: [])(PATIENT_S)
