"""Allowed requests: query arguments within bounds, and burning only from this machine to itself."""

import pytest
from starlette.exceptions import HTTPException
from steelyard_loadtest.server.request_checks import (
    BODY_BYTES,
    BURN_SECONDS,
    BURN_WORKERS,
    FILE_BYTES,
    FORWARDING,
    SLEEP_MS,
    Argument,
    host_name,
    is_local,
    is_loopback_name,
    read,
)

EACH = pytest.mark.parametrize(
    "argument", [SLEEP_MS, BODY_BYTES, FILE_BYTES, BURN_SECONDS, BURN_WORKERS], ids=lambda it: str(it.name)
)


@EACH
def test_an_absent_argument_is_its_default_and_the_default_is_within_the_bounds(argument: Argument) -> None:
    assert read(argument, {"another": "7"}) == argument.default
    assert argument.lowest <= argument.default <= argument.highest


@EACH
def test_both_bounds_are_taken_and_their_neighbours_are_not(argument: Argument) -> None:
    assert read(argument, {argument.name: str(argument.lowest)}) == argument.lowest
    assert read(argument, {argument.name: str(argument.highest)}) == argument.highest
    for beyond in (argument.lowest - 1, argument.highest + 1):
        with pytest.raises(HTTPException):
            read(argument, {argument.name: str(beyond)})


@pytest.mark.parametrize(
    "text", ["", " ", "+5", "-5", "5.0", "5e1", "1_0", "0x5", "five", "nan", "٥", "²", "9" * 5000]
)
def test_what_is_no_plain_whole_number_is_refused(text: str) -> None:
    with pytest.raises(HTTPException):
        read(SLEEP_MS, {"ms": text})


def test_leading_zeros_are_still_a_number() -> None:
    assert read(SLEEP_MS, {"ms": "007"}) == 7


def test_a_refusal_names_the_argument_its_unit_and_its_bounds() -> None:
    with pytest.raises(HTTPException) as refused:
        read(BURN_WORKERS, {"workers": "9"})
    said = "workers must be a whole number of processes from 1 to 8, not '9'"
    assert (refused.value.status_code, refused.value.detail) == (400, said)


@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8101", "localhost:8101", "[::1]", "[::1]:8101"])
def test_a_loopback_peer_that_names_a_loopback_host_is_local(client: str, host: str) -> None:
    assert is_local(client, {"host": host})


@pytest.mark.parametrize("client", [None, "", "10.0.0.1", "192.168.1.2", "0.0.0.0", "::", "fe80::1", "unix:"])  # noqa: S104
def test_a_peer_from_elsewhere_is_not_local(client: str | None) -> None:
    assert not is_local(client, {"host": "127.0.0.1:8101"})


@pytest.mark.parametrize("host", ["web", "web:80", "example.org", "127.0.0.1.example.org", "10.0.0.1:80", ""])
def test_a_foreign_host_is_not_local_because_a_load_balancer_here_sends_one(host: str) -> None:
    assert not is_local("127.0.0.1", {"host": host})


def test_a_request_without_a_host_is_not_local() -> None:
    assert not is_local("127.0.0.1", {})


@pytest.mark.parametrize("header", FORWARDING)
def test_a_forwarded_request_is_not_local_whoever_it_says_it_is_for(header: str) -> None:
    assert not is_local("127.0.0.1", {"host": "127.0.0.1", header: "127.0.0.1"})


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost", "localhost"),
        ("localhost:80", "localhost"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::1]:80", "::1"),
        ("[::1", "::1"),
        ("", ""),
    ],
)
def test_port_and_brackets_are_taken_off_a_host(host: str, name: str) -> None:
    assert host_name(host) == name


def test_a_name_that_only_looks_like_loopback_is_not() -> None:
    assert not any(map(is_loopback_name, ["localhost.example.org", "127.1", "2130706433", "0x7f.1"]))
